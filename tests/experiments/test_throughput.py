"""experiments/throughput at a toy size: real runs, and the claims its figures rest on."""

import json

import hydra.version
import numpy as np
import pytest

from experiments import harness
from experiments.throughput import __main__ as cli
from experiments.throughput import orchestration, physics, report, sweep
from experiments.throughput.plot import RESULTS, draw
from mimicpipe.envs.mujoco.scene import SUBSTEPS


@pytest.fixture(autouse=True)
def _hydra_1_3():
    hydra.version.setbase("1.3")


@pytest.fixture(scope="module")
def taped():
    """(parts, tape) of four attempts in two slots."""
    hydra.version.setbase("1.3")
    with harness.built("recorder=none", "env.num_envs=2", "num_demos=4", "max_attempts=4") as parts:
        yield parts, physics.record(parts)


def test_the_tape_is_the_physics_of_the_run(taped):
    parts, tape = taped
    again = harness.run_pipeline(parts)
    assert tape.env_steps == again.state.counters.env_steps
    assert parts.env._rollout is tape.physics, "the env has its physics back"
    compared = 0
    for call, after in zip(tape.calls[:-1], tape.calls[1:], strict=True):
        tape.physics.rollout(call.models, parts.env._data, call.start, call.control, **call.options)
        end = call.options["state"][:, -1]
        if len(end) == len(after.start) == 2:
            went_on = after.start[:, 0] > 0
            np.testing.assert_array_equal(end[went_on], after.start[went_on])
            compared += went_on.sum()
    assert compared > 50


def test_played_physics_counts_the_steps_of_the_run(taped):
    parts, tape = taped
    sample = physics.play(tape, parts.env._data)
    assert sample.env_steps == tape.env_steps
    assert sample.wall_s > 0
    assert sample.rate == sample.env_steps / sample.wall_s


def test_open_loop_leaves_out_what_was_reset_or_parked(taped):
    parts, tape = taped
    stretches = physics._stretches(tape, 8)
    assert stretches
    for start, control in stretches:
        assert control.shape == (len(start), 8 * SUBSTEPS, parts.env.model.nu)
    sample = physics.open_loop(tape, parts.env._data, 8)()
    assert sample.env_steps == 8 * sum(len(start) for start, _ in stretches) < tape.env_steps


def test_open_loop_of_a_tape_that_is_too_short_has_no_steps(taped):
    parts, tape = taped
    assert physics.open_loop(tape, parts.env._data, len(tape.calls) + 1)().env_steps == 0


def test_orchestration_and_its_page(tmp_path):
    rows = orchestration.measure([orchestration.Case(1, 2), orchestration.Case(4, 4)], repeats=1)
    assert [(r["num_envs"], r["attempts"]) for r in rows] == [(1, 2), (4, 4)]
    assert all(r["env_steps"] > 50 and r["bare_steps_per_s"] > 0 < r["ratio"] for r in rows)
    assert rows[0]["goal_met"] == (rows[0]["pipeline_steps_per_s"] >= 1000)
    assert rows[1]["goal_met"] is None
    cli.measure("orchestration", lambda: rows, tmp_path, harness.describe_machine())
    results = harness.read_json(tmp_path / "throughput.json")
    assert results["orchestration"]["rows"] == json.loads(json.dumps(rows))
    assert (tmp_path / "throughput.md").read_text() == report.render(results)
    assert draw(results, tmp_path) == [tmp_path / "orchestration.png"]


def test_a_sweep_is_collected_from_its_jobs(tmp_path):
    toy = ("env=kinematic", "pool=scripted", "pool.num_demos=1", "num_demos=2", "max_attempts=2", "seed=0,1")
    sweep.multirun(tmp_path / "sweep" / "others", "recorder=none", "env.num_envs=2,1", *toy)
    rows = sweep.collect(tmp_path / "sweep")
    assert [(r["recorder"], r["num_envs"], r["jobs"]) for r in rows] == [("none", 1, 2), ("none", 2, 2)]
    assert all(r["attempts"] == 2 and r["held_s"] == 0 and r["queue_peak"] is None for r in rows)
    with pytest.raises(FileExistsError, match="not empty"):
        sweep.measure(tmp_path / "sweep")


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_everything_at_a_toy_size(tmp_path):
    assert cli.main(["--quick", f"--out={tmp_path}"]) == 0
    results = harness.read_json(tmp_path / "throughput.json")
    assert (tmp_path / "throughput.md").read_text() == report.render(results)
    assert {path.name for path in tmp_path.glob("*.png")} == {"orchestration.png", "physics.png", "sweep.png"}
    for row in results["physics"]["rows"]:
        assert row["none_ratio"] == pytest.approx(row["none_steps_per_s"] / row["raw_steps_per_s"])
        assert row["async_written_steps_per_s"] <= row["async_generated_steps_per_s"]
    rows = results["sweep"]["rows"]
    recorders = [(r["recorder"], r["queue_maxsize"]) for r in rows[::2]]
    assert recorders == [("none", None), ("sync", None), ("async", 1), ("async", 4)]
    assert [r["num_envs"] for r in rows] == [1, 4] * 4
    assert all(r["demos"] == 4 and 0 <= r["held_share"] < 1 for r in rows)
    assert [r["held_s"] > 0 for r in rows[:4]] == [False, False, True, True]
    assert all(1 <= r["queue_peak"] <= r["queue_maxsize"] for r in rows[4:])


@pytest.mark.parametrize("section", cli.SECTIONS)
def test_the_committed_page_and_figures_are_those_of_the_committed_figures(section):
    results = harness.read_json(RESULTS / "throughput.json")
    assert results[section]["rows"]
    assert (RESULTS / f"{section}.png").is_file()
    assert (RESULTS / "throughput.md").read_text() == report.render(results)


def test_a_sweep_that_fails_says_where_its_output_is(tmp_path):
    with pytest.raises(RuntimeError, match="exit code 2") as raised:
        sweep.multirun(tmp_path / "s", "recorder=asink")
    log = tmp_path / "s" / "multirun.log"
    assert str(log) in str(raised.value)
    assert "recorder=asink: no such option" in log.read_text()


def test_an_unknown_section_is_refused(capsys):
    with pytest.raises(SystemExit, match="2"):
        cli.main(["physiks"])
    assert "unknown section physiks; choose from orchestration, physics, sweep" in capsys.readouterr().err
