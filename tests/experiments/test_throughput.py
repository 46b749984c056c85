"""experiments/throughput at a toy size: real runs, and the claims its figures rest on."""

import json

import hydra.version
import pytest

from experiments import harness
from experiments.throughput import __main__ as cli
from experiments.throughput import orchestration, peer, physics, report, sweep
from experiments.throughput.peer_loop import is_installed
from experiments.throughput.plot import RESULTS, draw


@pytest.fixture(autouse=True)
def _hydra_1_3():
    hydra.version.setbase("1.3")


@pytest.fixture(scope="module")
def taped():
    """(parts, tape) of four attempts in two slots."""
    hydra.version.setbase("1.3")
    with (
        harness.built("recorder=none", "env.num_envs=2", "num_demos=4", "max_attempts=4") as parts,
        physics.taped(parts) as tape,
    ):
        yield parts, tape


def test_the_tape_is_the_physics_of_the_run(taped):
    parts, tape = taped
    again = harness.run_pipeline(parts)
    assert tape.env_steps == again.state.counters.env_steps
    assert [len(call.start) for call in tape.calls[:-1]] == [2] * (len(tape.calls) - 1), "full batches"
    ends = {row.tobytes() for call in tape.calls for row in tape.play(call)[:, -1]}
    begun_by_another = [row for call in tape.calls for row in call.start if row[0] > 0]
    assert len(begun_by_another) == tape.env_steps - 4, "all but the attempts' first steps"
    assert all(row.tobytes() in ends for row in begun_by_another)


def test_played_physics_counts_the_steps_of_the_run(taped):
    _, tape = taped
    sample = physics.play(tape)
    assert sample.env_steps == tape.env_steps
    assert sample.wall_s > 0
    assert sample.rate == sample.env_steps / sample.wall_s


def test_orchestration_and_its_page(tmp_path):
    rows = orchestration.measure([orchestration.Case(1, 2), orchestration.Case(4, 4)], repeats=1)
    assert [(r["num_envs"], r["attempts"]) for r in rows] == [(1, 2), (4, 4)]
    assert all(r["env_steps"] > 50 and r["bare_steps_per_s"] > 0 < r["ratio"] for r in rows)
    assert rows[0]["goal_met"] == (rows[0]["pipeline_steps_per_s"] >= 2000)
    assert rows[1]["goal_met"] is None
    cli.measure("orchestration", lambda: rows, tmp_path, harness.describe_machine())
    results = harness.read_json(tmp_path / "throughput.json")
    assert results["orchestration"]["rows"] == json.loads(json.dumps(rows))
    assert (tmp_path / "throughput.md").read_text() == report.render(results)
    assert draw(results, tmp_path) == [tmp_path / "orchestration.png"]


@pytest.mark.slow
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
    assert cli.main(["--smoke", f"--out={tmp_path}"]) == 0
    results = harness.read_json(tmp_path / "throughput.json")
    assert (tmp_path / "throughput.md").read_text() == report.render(results)
    assert {path.stem for path in tmp_path.glob("*.png")} - {"peer"} == {"orchestration", "physics", "sweep"}
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
    file = RESULTS / f"{cli.FILES.get(section, 'throughput')}.json"
    results = harness.read_json(file)
    assert results[section]["rows"]
    assert (RESULTS / f"{section}.png").is_file()
    assert file.with_suffix(".md").read_text() == report.render(results)


@pytest.mark.skipif(is_installed(), reason="isaaclab is installed, so nothing is missing")
def test_a_missing_peer_is_named_in_one_line_with_what_to_install(capsys, monkeypatch, tmp_path):
    with pytest.raises(SystemExit, match="1"):
        cli.main(["peer"])
    asked = capsys.readouterr().err
    assert asked.count("\n") == 1
    assert "isaaclab is not installed here: run `make isaaclab`" in asked
    monkeypatch.setattr(cli, "measure", lambda section, *_: print(f"measured {section}"))
    assert cli.main([f"--out={tmp_path}"]) == 0
    left = capsys.readouterr()
    assert left.out.split() == ["measured", "orchestration", "measured", "physics", "measured", "sweep"]
    assert left.err == asked.replace("peer: ", "peer: left out; ")


@pytest.mark.isaaclab
@pytest.mark.timeout(600)
@pytest.mark.skipif(not is_installed(), reason="the extra isaaclab is not installed: make isaaclab")
def test_the_peer_is_measured_and_generates_the_same(tmp_path):
    rows = peer.measure([peer.Case(1, 1, 1, compare=True), peer.Case(3, 3, 2)])
    assert [(r["num_envs"], r["attempts"], len(r["repeats_peer_steps_per_s"])) for r in rows] == [(1, 1, 1), (3, 3, 2)]
    assert all(r["ratio"] > 0 and 0 < r["peer_env_share"] < 1 and r["peer_demos_per_hour"] > 0 for r in rows)
    assert rows[0]["difference"]["pose"] < 1e-5 > rows[0]["difference"]["gripper"]
    assert rows[0]["difference"]["steps"] > 50 > 10 >= rows[0]["difference"]["small_turns"]
    assert rows[1]["difference"] is None
    cli.measure("peer", lambda: rows, tmp_path, harness.describe_machine())
    results = harness.read_json(tmp_path / "peer.json")
    assert (tmp_path / "peer.md").read_text() == report.render(results)
    assert (tmp_path / "peer.png").is_file()


def test_a_sweep_that_fails_says_where_its_output_is(tmp_path):
    with pytest.raises(RuntimeError, match="exit code 2") as raised:
        sweep.multirun(tmp_path / "s", "recorder=asink")
    log = tmp_path / "s" / "multirun.log"
    assert str(log) in str(raised.value)
    assert "recorder=asink: no such option" in log.read_text()


def test_an_unknown_section_is_refused(capsys):
    with pytest.raises(SystemExit, match="2"):
        cli.main(["physiks"])
    assert "unknown section physiks; choose from orchestration, physics, sweep, peer" in capsys.readouterr().err
