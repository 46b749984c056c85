"""Replay a run's dataset in its simulator: `python -m examples.replay outputs/<day>/<time>`.

Every episode is set to its recorded initial state and driven by its recorded actions alone.
"""

import json
import sys
from pathlib import Path

import pyarrow.parquet as pq
import torch
from torch import Tensor

from mimicpipe import build
from mimicpipe.envs.base import MimicEnv
from mimicpipe.recorders.episode_rows import read_episode_metadata
from mimicpipe.tools.saved_run import saved_config


def replay(run_folder: Path) -> list[bool]:
    """Whether each episode of the run's dataset ends in success again.

    Args:
        run_folder: a run's output folder, with run.json; its recorder was sync or async.

    Raises:
        SystemExit: with one line, where there is nothing to replay.
    """
    record = run_folder / "run.json"
    if not record.is_file():
        raise SystemExit(f"{run_folder}: no run.json, so this is no run's output folder")
    run = json.loads(record.read_text(encoding="utf-8"))
    if run["dataset"] is None:
        raise SystemExit(f"{record}: the run recorded no dataset (it ended by: {run['exit_reason']})")
    root = Path(run["dataset"]["root"])
    if not (root / "meta" / "info.json").is_file():
        raise SystemExit(f"{root}: the run's dataset is not there any more, or is no LeRobot dataset")
    config = saved_config(run_folder)
    episodes = read_episode_metadata(root)
    tables = [pq.read_table(file, columns=["action"]) for file in sorted((root / "data").glob("*/*.parquet"))]
    frames = torch.tensor([action for table in tables for action in table["action"].to_pylist()])
    actions = frames.split([episode["length"] for episode in episodes])
    env = build.build_env(config)
    try:
        ended: list[bool] = []
        for first in range(0, len(episodes), env.num_envs):
            part = slice(first, first + env.num_envs)
            states = torch.stack([episode["initial_state"] for episode in episodes[part]])
            ended += _play(env, states, actions[part])
        return ended
    finally:
        env.close()


def _play(env: MimicEnv, states: Tensor, actions: tuple[Tensor, ...]) -> list[bool]:
    """Play K episodes in slots 0 .. K - 1: states (K, S), actions K times (T, A)."""
    env.set_state(states, torch.arange(len(actions), device=env.device))
    batch = torch.zeros(env.num_envs, env.action_dim, device=env.device)
    ended = [False] * len(actions)
    for step in range(max(map(len, actions))):
        slots = [slot for slot, episode in enumerate(actions) if step < len(episode)]
        for slot in slots:
            batch[slot] = actions[slot][step]
        env.step(batch, torch.tensor(slots, device=env.device))
        success = env.success().tolist()
        for slot in slots:
            ended[slot] = success[slot]
    return ended


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit("usage: python -m examples.replay <a run's output folder>")
    results = replay(Path(sys.argv[1]))
    print(f"{sum(results)} of {len(results)} episodes end in success")
