import json
import sys
from pathlib import Path

import hydra.version
import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[2]))

from in_process import run_main

from mimicpipe.report.bottleneck import find_bottleneck

WALL = {"time/plan_s": 1.0, "time/step_s": 3.0, "time/record_s": 6.0}
QUEUE = {"recorder/queue_peak": 8.0, "recorder/queue_maxsize": 8.0, "recorder/backpressure_s": 4.1}


def test_nothing_timed_is_no_bottleneck():
    assert find_bottleneck({}) is None
    assert find_bottleneck({"time/step_s": 0.0}) is None


def test_a_full_queue_is_the_proof():
    found = find_bottleneck({**WALL, **QUEUE, "recorder/finalize_s": 1.0})
    assert found is not None
    assert (found.stage, found.share, found.queue) == ("record", 0.6, "recorder")
    assert found.proof == "the recorder's queue was full for 41.0 % of the run"


def test_the_end_of_a_run_is_told_from_a_full_queue():
    found = find_bottleneck({**WALL, **QUEUE, "recorder/backpressure_s": 0.0, "recorder/finalize_s": 5.0})
    assert found is not None
    assert found.proof == (
        "completing the dataset after the last attempt took 50.0 % of the run; "
        "the recorder's queue (peak 8 of 8) was never full"
    )


def test_a_recorder_without_queue_writes_in_the_loop():
    found = find_bottleneck({**WALL, "recorder/finalize_s": 0.5})
    assert found is not None
    assert found.queue is None
    assert found.proof == "copying and writing episodes in the loop took 55.0 % of the run; the recorder has no queue"


def test_work_behind_the_simulator_is_not_what_holds_a_run_up():
    metrics = {"time/plan_s": 6.0, "time/step_s": 4.0, "critical/plan_s": 1.0, "critical/step_s": 9.0}
    found = find_bottleneck({**metrics, "queue/action_wait_s": 2.5})
    assert found is not None
    assert (found.stage, found.share, found.queue) == ("step", 0.9, "action")
    assert found.proof == "the simulator; on average 0.25 requests waited in env_action_queue"


@pytest.mark.parametrize(
    ("stage", "words"),
    [("plan", "generators"), ("wait", "generators"), ("reset", "resets"), ("observe", "observations"),
     ("render", "cameras"), ("step", "the simulator;")],
)  # fmt: skip
def test_every_stage_has_a_proof(stage, words):
    found = find_bottleneck({f"time/{stage}_s": 2.0, **{f"queue/{q}_wait_s": 3.0 for q in ("action", "reset")}})
    assert found is not None
    assert (found.stage, found.share) == (stage, 1.0)
    assert words in found.proof
    assert f"on average 1.5 requests waited in env_{found.queue}_queue" in found.proof


# ---- real runs

SLOW_DISK = (
    "recorder._target_=experiments.soak.slow_disk.SlowDiskRecorder",
    "allowed_targets=[experiments]",
    "+recorder.mb_per_s=0.02",
    "num_demos=24",
)
OWN = ("allowed_targets=[slow_parts]", "recorder=none")
KINEMATIC = ("env=kinematic", "env.num_envs=4")
RUNS = {
    "sync": (["env=mujoco", "env.num_envs=2", "recorder=sync", "num_demos=2"], None, ""),
    "async": (["env=mujoco", "env.num_envs=2", "recorder=async", "num_demos=2"], None, ""),
    "full queue": ([*KINEMATIC, *SLOW_DISK, "recorder.async_queue_maxsize=2"], "record", "queue was full for"),
    "late writer": ([*KINEMATIC, *SLOW_DISK, "recorder.async_queue_maxsize=0"], "record", "completing the dataset"),
    "planner": ([*KINEMATIC, *OWN, "generator._target_=slow_parts.SlowPlanner", "num_demos=12"], "plan", "planner"),
    "generator": ([*KINEMATIC, *OWN, "generator._target_=slow_parts.Waiter", "num_demos=12"], "wait", "awaited"),
    "physics": (["env=mujoco", "env.num_envs=16", "recorder=none", "num_demos=16"], "step", "the simulator"),
}


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    "name", [*(pytest.param(n, marks=pytest.mark.slow) if n in ("late writer", "physics") else n for n in RUNS)]
)
def test_a_run_names_what_was_made_slow_and_its_stages_add_up(name, tmp_path, monkeypatch, capsys):
    arguments, stage, proof = RUNS[name]
    monkeypatch.syspath_prepend(Path(__file__).parent)
    hydra.version.setbase("1.3")
    assert run_main([*arguments, "tracker=none", f"hydra.run.dir={tmp_path}/run"], tmp_path) == 0
    run = json.loads((tmp_path / "run" / "run.json").read_text())
    assert sum(run["stage_s"].values()) == pytest.approx(run["wall_s"], rel=0.02)
    last = json.loads((tmp_path / "run" / "metrics.jsonl").read_text().splitlines()[-1])
    held = {key: value for key, value in last.items() if key.startswith("critical/")}
    assert sum(held.values()) == pytest.approx(last["wall_s"], rel=0.02)
    assert min(held.values()) >= 0.0
    if stage is not None:
        assert run["bottleneck"] == stage
        assert proof in run["bottleneck_proof"]["proof"]
        assert f"bottleneck  {stage}: " in capsys.readouterr().out
    assert run["bottleneck"] == run["bottleneck_proof"]["stage"]
