"""The gym ids of mimicpipe's own Isaac Lab environments. Importing this registers them and imports no simulator.

A script of Isaac Lab's own (`generate_dataset.py`, `annotate_demos.py`) needs one line more:
`import mimicpipe.envs.isaaclab.registry`.
"""

import gymnasium

PICK_IK_REL = "Mimicpipe-Pick-Panda-IK-Rel-Mimic-v0"
PICK_IK_ABS = "Mimicpipe-Pick-Panda-IK-Abs-Mimic-v0"

_CLASSES = {PICK_IK_REL: ("PickIkRelEnv", "PickIkRelEnvCfg"), PICK_IK_ABS: ("PickIkAbsEnv", "PickIkAbsEnvCfg")}

for _id, (_env, _cfg) in _CLASSES.items():
    if _id not in gymnasium.registry:
        gymnasium.register(
            id=_id,
            entry_point=f"mimicpipe.envs.isaaclab.pick:{_env}",
            kwargs={"env_cfg_entry_point": f"mimicpipe.envs.isaaclab.pick_cfg:{_cfg}"},
            disable_env_checker=True,
        )
