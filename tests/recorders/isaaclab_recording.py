"""A run of a real Isaac Lab environment, as a process of its own: `python isaaclab_recording.py ROOT CASE`.

Three slots of the pick environment with short episodes: slots 0 and 2 succeed together at step 5 of each episode, slot
1 never does and times out at step 8. What each step showed and did is printed as one line of JSON at the end.

CASE: "all", "success_only", "killed" (kill -9 once episodes are durable), or "by_hand" (there is no termination term,
and episodes end as Isaac Lab Mimic's loop has them end, see `by_hand`).
"""

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

STEPS = 16
DONE_AT, LONGEST = 5, 8
TASK = "Pick up the cube."


def done_together(env):
    """(N,) success of slots 0 and 2 at step `DONE_AT` of their episodes."""
    import torch

    return (env.episode_length_buf >= DONE_AT) & (torch.arange(env.num_envs, device=env.device) != 1)


def settings(root, case):
    """Configuration of the environment."""
    from isaaclab.managers import TerminationTermCfg
    from isaaclab_tasks.utils.parse_cfg import load_cfg_from_registry

    import mimicpipe.envs.isaaclab.registry as registry
    from mimicpipe.recorders.isaaclab_term import LeRobotRecorderManagerCfg

    cfg = load_cfg_from_registry(registry.PICK_IK_REL, "env_cfg_entry_point")
    cfg.sim.device = "cpu"
    cfg.seed = 3
    cfg.scene.num_envs = 3
    cfg.episode_length_s = LONGEST * cfg.sim.dt * cfg.decimation
    cfg.terminations.success = TerminationTermCfg(func=done_together)
    cfg.recorders = LeRobotRecorderManagerCfg()
    cfg.recorders.lerobot.root = str(root)
    cfg.recorders.lerobot.task = TASK
    cfg.recorders.lerobot.success_only = case == "success_only"
    if case == "by_hand":
        cfg.terminations = None
    return registry.PICK_IK_REL, cfg


def by_hand(env, advance):
    """Episodes that somebody else calls successes, exports and discards, and that no reset follows.

    Frames of each slot: slot 0 a success of 3, then one of 4 that nobody judges; slot 1 a failure of 3, then one of 4
    that ends with the reset; of slot 2 the first 2 are discarded, then a success of 5.
    """
    import torch

    manager, slots = env.recorder_manager, torch.arange(3)
    advance(2)
    manager.reset(slots[2:])
    advance(1)
    manager.set_success_to_episodes(slots[:2], torch.tensor([[True], [False]]))
    manager.export_episodes(slots[:2])
    advance(4)
    env.reset(env_ids=slots[1:2])
    manager.set_success_to_episodes([2], torch.tensor([[True]]))
    manager.export_episodes([2, 0])
    advance(1)


def main():
    import gymnasium
    import torch
    from isaaclab.app import launch_simulation

    from mimicpipe.recorders.isaaclab_term import finalize
    from mimicpipe.recorders.staging_area import count_staged, staging_path

    root, case = Path(sys.argv[1]), sys.argv[2]
    task, cfg = settings(root, case)
    generator = torch.Generator().manual_seed(0)
    shown, states = [], []
    with launch_simulation(cfg, {"headless": True, "device": "cpu"}):
        env: Any = gymnasium.make(task, cfg=cfg).unwrapped
        env.reset()
        states.append(env.scene.get_state(is_relative=True)["rigid_object"]["cube"]["root_pose"].tolist())

        def advance(steps):
            for _ in range(steps):
                action = 0.02 * torch.randn(3, env.action_manager.total_action_dim, generator=generator)
                policy = env.obs_buf["policy"]
                shown.append({"cube": policy["cube_pos"].tolist(), "action": action.tolist()})
                env.step(action)

        by_hand(env, advance) if case == "by_hand" else advance(STEPS)
        if case == "killed":
            while count_staged(staging_path(root)) < 5:
                time.sleep(0.01)
            os.kill(os.getpid(), signal.SIGKILL)
        path = finalize(env)
        assert path == finalize(env)
        env.close()
    print("\n" + json.dumps({"path": str(path), "shown": shown, "first_states": states[0]}))


if __name__ == "__main__":
    main()
