"""The same seed is the same bits: whatever num_envs, the recorder and the threads, with failures and a growing pool."""

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from in_process import ROOT, run_main

from mimicpipe.recorders.digest import digest, digest_parts

# The first test of a process waits for the import of lerobot, which is slow on a busy machine.
pytestmark = pytest.mark.timeout(180)

NUM_ENVS = [1, 2, 7, 16, 64]
RECORDERS = [["recorder=sync"], ["recorder=async"], ["recorder=sharded", "recorder.workers=1"], ["recorder=none"]]
NUM_DEMOS = 6
SHORT = ["env=kinematic", "task=stack", f"num_demos={NUM_DEMOS}", "seed=3", "task.max_episode_steps=140"]
"""Some attempts are too long for it."""
RAISING = [
    "env=kinematic", "task=stack", f"num_demos={NUM_DEMOS}", "generator._target_=own_faults.SometimesRaising",
    "allowed_targets=[own_faults]",
]  # fmt: skip
GROWING = [
    "--config-dir", str(ROOT / "examples" / "conf"), "allowed_targets=[examples]", "env=kinematic", "generator=growing",
    "pool=growing_mirrored", "pool.max_demos=3", "generator.every=2", f"num_demos={NUM_DEMOS}",
]  # fmt: skip
MUJOCO = ["env=mujoco", "task=pick", "num_demos=2"]


@pytest.fixture
def run(tmp_path, monkeypatch, capfd) -> Callable[..., Path]:
    """`run.py` in this process: (overrides) -> the output folder; fails unless the exit code is 0."""
    monkeypatch.syspath_prepend(ROOT)
    monkeypatch.syspath_prepend(ROOT / "tests" / "cli")
    count = 0

    def call(*overrides: str) -> Path:
        nonlocal count
        count += 1
        folder = tmp_path / f"run_{count}"
        code = run_main([*overrides, "tracker=none", f"hydra.run.dir={folder}"], tmp_path)
        assert code == 0, capfd.readouterr().err
        return folder

    return call


def rows(folder: Path, *others: str) -> list[dict]:
    """attempts.jsonl without the slot, which depends on num_envs, and without other keys."""
    lines = (folder / "attempts.jsonl").read_text(encoding="utf-8").splitlines()
    return [{key: value for key, value in json.loads(line).items() if key not in ("slot", *others)} for line in lines]


def assert_counts_agree(folder: Path, num_demos: int = NUM_DEMOS) -> None:
    """run.json, attempts.jsonl, metrics.jsonl and the dataset say the same of a run that has reached its demos."""
    record, attempts = json.loads((folder / "run.json").read_text()), rows(folder)
    successes = [row for row in attempts if row["success"]]
    assert record["exit_reason"] == "num_demos"
    assert record["counts"]["successes"] == len(successes) == num_demos
    assert record["counts"]["attempts"] == len(attempts)
    assert [row["attempt"] for row in attempts] == list(range(len(attempts)))
    assert attempts[-1]["success"], "it ends with the last demo"
    reasons = Counter(row["reason"] for row in attempts)
    assert record["reasons"] == reasons
    last = json.loads((folder / "metrics.jsonl").read_text().splitlines()[-1])
    failures = {name.removeprefix("failures/"): n for name, n in last.items() if name.startswith("failures/")}
    assert {reason: n for reason, n in failures.items() if n} == {r: n for r, n in reasons.items() if r != "success"}
    if record["dataset"] is not None:
        info = json.loads((folder / "dataset" / "meta" / "info.json").read_text())
        assert info["total_episodes"] == num_demos
        assert info["total_frames"] == sum(row["length"] for row in successes) == record["counts"]["frames"]
        assert [row["episode_index"] for row in successes] == list(range(num_demos))


def assert_same(run, command: list[str], variants: list[list[str]], num_demos: int = NUM_DEMOS) -> list[dict]:
    """Every variant leaves the same attempts, and those that record the same dataset; returns the attempts."""
    expected: list[dict] = []
    parts: dict[str, str] = {}
    for variant in variants:
        folder = run(*command, *variant)
        assert_counts_agree(folder, num_demos)
        attempts = rows(folder, "episode_index")  # which is null where nothing is recorded
        expected = expected or attempts
        assert attempts == expected, variant
        if "recorder=none" not in variant:
            parts = parts or digest_parts(folder / "dataset")
            assert digest_parts(folder / "dataset") == parts, variant
    assert parts, "at least one of them records"
    return expected


def test_every_num_envs_with_every_recorder(run):
    """All of both, each once, instead of all twenty pairs."""
    variants = [[*RECORDERS[i % 4], f"env.num_envs={n}"] for i, n in enumerate(NUM_ENVS)]
    attempts = assert_same(run, SHORT, variants)
    assert {row["reason"] for row in attempts} == {"success", "timeout"}


def test_attempts_that_raise(run):
    attempts = assert_same(
        run, RAISING, [[*RECORDERS[1], "env.num_envs=1"], ["recorder=none", "env.num_envs=7"],
                       [*RECORDERS[0], "env.num_envs=16"]],
    )  # fmt: skip
    assert [row["reason"] for row in attempts[1:4]] == ["error:LookupError", "not_successful", "plan_failed"]


def test_a_pool_that_grows(run):
    variants = [
        [*RECORDERS[1], "env.num_envs=1"],
        [*RECORDERS[0], "env.num_envs=7"],
        [*RECORDERS[1], "env.num_envs=16"],
    ]
    attempts = assert_same(run, GROWING, variants)
    order = [f"demo_{i}" for i in range(3)] + [f"demo_{i}_mirrored" for i in range(3)]
    for row in attempts:
        visible = order[: 3 + row["attempt"] // 2]
        assert {source["demo"] for source in row["source_demos"]} <= set(visible)


def test_mujoco_with_one_and_two_threads(run):
    variants = [
        [*RECORDERS[0], "env.num_envs=1", "env.threads=1"],
        [*RECORDERS[1], "env.num_envs=7", "env.threads=1"],
        [*RECORDERS[1], "env.num_envs=7", "env.threads=2"],
    ]
    assert_same(run, MUJOCO, variants, 2)


@pytest.mark.parametrize(("limit", "reason"), [("max_attempts=7", "max_attempts"), ("max_failures=4", "max_failures")])
def test_limits_to_the_attempt(run, limit, reason):
    command = [*RAISING, "num_demos=1000", limit, "recorder=sync"]
    folders = [run(*command, f"env.num_envs={n}") for n in (1, 7)]
    first = rows(folders[0])
    assert all(rows(folder) == first for folder in folders)
    assert len({digest(folder / "dataset") for folder in folders}) == 1
    record = json.loads((folders[1] / "run.json").read_text())
    info = json.loads((folders[1] / "dataset" / "meta" / "info.json").read_text())
    failures = sum(not row["success"] for row in first)
    assert (record["exit_reason"], record["counts"]["failures"]) == (reason, failures)
    assert info["total_episodes"] == len(first) - failures
    assert (len(first) == 7) if reason == "max_attempts" else (failures == 4 and not first[-1]["success"])


@pytest.mark.parametrize("env", ["kinematic", "mujoco"])
def test_a_slot_that_diverges_leaves_the_others_as_they_were(run, env):
    own = ["--config-dir", str(ROOT / "examples" / "conf"), "allowed_targets=[examples,own_faults]", "recorder=npz"]
    command = [*own, f"env={env}", "task=pick", "env.num_envs=4", "seed=0"]
    whole = run(*command, "num_demos=6")
    folder = run(*command, "num_demos=5", f"env._target_=own_faults.Diverging{env.title()}")
    attempts, expected = rows(folder, "episode_index"), rows(whole, "episode_index")
    assert (attempts[1]["success"], attempts[1]["reason"]) == (False, "nonfinite")
    assert expected[1]["success"]
    assert [row for row in attempts if row["attempt"] != 1] == [
        row for row in expected[: len(attempts)] if row["attempt"] != 1
    ]
    ours, theirs = episodes(folder), episodes(whole)
    for attempt, episode in ours.items():
        assert all(np.array_equal(episode[name], theirs[attempt][name]) for name in theirs[attempt])
    assert len(ours) == 5


def episodes(folder: Path) -> dict[int, dict[str, np.ndarray]]:
    """{attempt: what `recorder=npz` has kept of it}."""
    found = [dict(np.load(path)) for path in sorted((folder / "dataset").glob("*.npz"))]
    return {int(episode["attempt"]): episode for episode in found}


def test_another_seed_is_another_dataset(run):
    folders = [run(*SHORT, f"seed={seed}", "num_demos=2", "recorder=sync") for seed in (1, 2)]
    assert digest(folders[0] / "dataset") != digest(folders[1] / "dataset")
