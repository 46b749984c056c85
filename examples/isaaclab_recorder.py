"""Record your own Isaac Lab environment: `python -m examples.isaaclab_recorder DATASET`, with the extra `isaaclab`.

Only the recorder is mimicpipe's here. Four slots of a registered environment are stepped with small random actions for
three seconds each, twice; the environment's recorder manager writes every episode, and closing it gives a dataset.
"""

import sys
from pathlib import Path
from typing import Any

PICK = "Mimicpipe-Pick-Panda-IK-Rel-Mimic-v0"


def record(root: Path, num_envs: int = 4, seconds: float = 3.0, episodes: int = 2) -> Path | None:
    """Record some episodes of each slot.

    Args:
        root: folder of the new dataset.
        num_envs: slots that are stepped at once.
        seconds: length of an episode.
        episodes: of each slot.

    Returns:
        The dataset's folder.
    """
    import gymnasium
    import torch
    from isaaclab.app import launch_simulation
    from isaaclab_tasks.utils.parse_cfg import load_cfg_from_registry

    import mimicpipe.envs.isaaclab.registry  # noqa: F401 - registers PICK
    from mimicpipe.recorders.isaaclab_term import LeRobotRecorderManagerCfg, finalize

    cfg = load_cfg_from_registry(PICK, "env_cfg_entry_point")
    cfg.sim.device = "cpu"
    cfg.scene.num_envs = num_envs
    cfg.episode_length_s = seconds
    cfg.recorders = LeRobotRecorderManagerCfg()
    cfg.recorders.lerobot.root = str(root)
    cfg.recorders.lerobot.task = "Pick up the cube."
    cfg.recorders.lerobot.robot_type = "panda"

    with launch_simulation(cfg, {"headless": True, "device": cfg.sim.device}):
        env: Any = gymnasium.make(PICK, cfg=cfg).unwrapped
        try:
            env.reset()
            for _ in range(episodes * env.max_episode_length):  # a slot that times out is reset by its own step
                env.step(0.02 * torch.randn(num_envs, env.action_manager.total_action_dim))
            return finalize(env)
        finally:
            env.close()


if __name__ == "__main__":
    print(record(Path(sys.argv[1])))
