"""Makes `assets/panda.usda`, the robot that Isaac Lab loads, from the MJCF model of env=mujoco.

Run in an environment of its own, because the converter's later versions ask for another MuJoCo:

    python3.12 -m venv /tmp/usd
    /tmp/usd/bin/pip install mujoco-usd-converter==0.6.1
    /tmp/usd/bin/python -m mimicpipe.envs.isaaclab.panda_usd
"""

import sys
import tempfile
from pathlib import Path

import mujoco

from mimicpipe.envs.mujoco.panda import ARM_JOINTS, FINGER_JOINTS, add_panda

PANDA_USD = Path(__file__).parent / "assets" / "panda.usda"


def robot_spec() -> mujoco.MjSpec:
    """The robot alone, without what Isaac Lab configures itself: servos, joint damping, and the fingers' coupling."""
    spec = mujoco.MjSpec()
    spec.modelname = "panda"
    spec.compiler.degree = False
    add_panda(spec)
    for made in (*spec.actuators, *spec.tendons, *spec.equalities):
        spec.delete(made)
    for name in (*ARM_JOINTS, *FINGER_JOINTS):
        spec.joint(name).damping = [0.0, 0.0, 0.0]
    for number, geom in enumerate(spec.geoms):
        geom.name = geom.name or f"{geom.parent.name}_shape{number}"
    spec.compile()
    return spec


def convert(path: Path) -> None:
    """Write the robot as one USD text file."""
    from mujoco_usd_converter import Converter  # only in the environment that the module's head names
    from pxr import Usd

    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / "panda.xml"
        model.write_text(robot_spec().to_xml())
        converted = Converter(layer_structure=False, scene=False).convert(str(model), f"{folder}/usd")
        path.parent.mkdir(exist_ok=True)
        layer = Usd.Stage.Open(converted.path).Flatten()
        layer.documentation = "Made by mimicpipe.envs.isaaclab.panda_usd."  # in place of the temporary file's name
        layer.Export(str(path))


if __name__ == "__main__":
    convert(PANDA_USD)
    print(PANDA_USD, file=sys.stderr)
