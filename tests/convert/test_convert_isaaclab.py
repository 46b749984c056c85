"""Files that Isaac Lab's own handler writes and reads."""

import numpy as np
import pytest
import torch

from mimicpipe.convert.options import Options
from mimicpipe.tools.convert import convert

pytest.importorskip("isaaclab")
pytestmark = [pytest.mark.isaaclab, pytest.mark.timeout(300), pytest.mark.filterwarnings("ignore")]


def episode(seed, length):
    from isaaclab.utils.datasets import EpisodeData

    generator = torch.Generator().manual_seed(seed)
    data = EpisodeData()
    data.seed, data.success = seed, seed != 1
    for name in ("robot", "door"):
        data.add(f"initial_state/articulation/{name}/root_pose", torch.randn(1, 7, generator=generator)[0])
    for _ in range(length):
        data.add("actions", torch.randn(7, generator=generator))
        data.add(
            "obs", {"joint_pos": torch.randn(9, generator=generator), "grasp": torch.rand(1, generator=generator) > 0.5}
        )
        data.add("states/rigid_object/cube/root_pose", torch.randn(7, generator=generator))
    data.pre_export()
    return data


def tensors(prefix, value):
    if isinstance(value, torch.Tensor):
        return {prefix: value}
    return {path: t for key, item in value.items() for path, t in tensors(f"{prefix}/{key}", item).items()}


def loaded(path):
    from isaaclab.utils.datasets import HDF5DatasetFileHandler

    handler = HDF5DatasetFileHandler()
    handler.open(str(path))
    try:
        assert not handler.is_legacy_quaternion_format()
        names = sorted(handler.get_episode_names())
        return {name: handler.load_episode(name, "cpu") for name in names}, handler.get_env_name()
    finally:
        handler.close()


def test_there_and_back(tmp_path):
    from isaaclab.utils.datasets import HDF5DatasetFileHandler

    handler = HDF5DatasetFileHandler()
    handler.create(str(tmp_path / "isaaclab.hdf5"), env_name="Isaac-Lift")
    handler.add_env_args({"sim_args": {"dt": 0.005, "decimation": 4, "render_interval": 4, "num_envs": 2}})
    for number, length in enumerate((6, 9, 4)):
        handler.write_episode(episode(number, length))
    handler.write_episode(episode(7, 5), demo_id=40)
    handler.close()
    assert convert(tmp_path / "isaaclab.hdf5", tmp_path / "dataset", Options()).episodes == 4
    convert(tmp_path / "dataset", tmp_path / "back.hdf5", Options())
    (before, env), (after, same_env) = loaded(tmp_path / "isaaclab.hdf5"), loaded(tmp_path / "back.hdf5")
    assert env == same_env == "Isaac-Lift"
    assert before.keys() == after.keys() == {"demo_0", "demo_1", "demo_2", "demo_40"}
    for name, one in before.items():
        other = after[name]
        assert (one.seed, bool(one.success)) == (other.seed, bool(other.success))
        mine, others = tensors("", one.data), tensors("", other.data)
        assert mine.keys() == others.keys()
        for path, values in mine.items():
            assert values.dtype == others[path].dtype
            assert np.array_equal(values.numpy(), others[path].numpy())
