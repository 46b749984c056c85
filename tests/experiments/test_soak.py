"""The long runs, short; what they check must be able to fail."""

import json
import shutil

import pytest

from experiments.soak import nothing_lost, report, runs, series
from experiments.soak.__main__ import RESULTS, main

pytestmark = pytest.mark.timeout(200)


def samples(count, rss=lambda i: 500.0, cpu=lambda i: 0.5):
    """A run of `count` samples, two seconds and 1000 env-steps apart."""
    rows, spent = [], 0.0
    for i in range(1, count + 1):
        spent += cpu(i)
        rows.append({"wall_s": 2.0 * i, "env_steps": 1000.0 * i, "system/cpu_s": spent, "system/rss_mb": rss(i)})
    return rows


def test_a_steady_run_is_flat():
    parts = series.deciles(samples(40), "wall_s")
    assert [part["until"] for part in parts] == pytest.approx([8.0 * i for i in range(1, 11)])
    assert parts[4]["wall_us_per_step"] == pytest.approx(2000.0)
    assert parts[4]["cpu_us_per_step"] == pytest.approx(500.0)
    assert series.growth(parts, "rss_mb") == 0.0
    assert series.growth(parts, "cpu_us_per_step") == pytest.approx(0.0)


def test_what_grows_is_seen():
    leaking = series.deciles(samples(40, rss=lambda i: 500.0 + i), "env_steps")
    assert series.growth(leaking, "rss_mb") == pytest.approx(24.0 / 512.5, rel=0.1)
    slowing = series.deciles(samples(40, cpu=lambda i: 0.5 + 0.05 * i), "wall_s")
    change = series.growth(slowing, "cpu_us_per_step")
    assert change is not None
    assert change > 0.5


def test_few_samples_are_interpolated_and_what_is_not_known_is_none():
    parts = series.deciles(samples(3), "wall_s")
    assert [part["wall_us_per_step"] for part in parts] == pytest.approx([2000.0] * 10)
    assert [part["cpu_us_per_step"] is None for part in parts] == [True] * 4 + [False] * 6  # 2 s of 6
    rows = samples(20)
    rows += [{**rows[-1], "wall_s": 40.0 + i} for i in range(1, 41)]  # it stands still
    stalled = series.deciles(rows, "wall_s")
    assert stalled[-1]["wall_us_per_step"] is None
    assert series.growth(stalled, "wall_us_per_step") is None


def test_a_figure_needs_few_samples():
    thin = series.thinned(samples(1001), ("wall_s",), most=100)
    assert len(thin["wall_s"]) <= 102
    assert thin["wall_s"][-1] == 2002.0


@pytest.fixture(scope="module")
def slow_run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("soak") / "run"
    result = runs.measure_slow_disk(
        folder, minutes=0.1, num_envs=8, mb_per_s=0.05, hang_every_s=2.0, hang_s=0.5, queue=4
    )
    return folder, result


@pytest.mark.slow
def test_a_slow_disk_loses_nothing(slow_run):
    folder, result = slow_run
    assert result["checked"]["episodes"] == result["successes"] > 0
    assert result["recorder"]["backpressure_events"] > 0
    assert result["recorder"]["queue_peak"] <= 4
    assert json.loads((folder / "run.json").read_text())["exit_reason"] == "SIGINT"
    page = report.render({"slow_disk": {"machine": _machine(), "load_average_before": 0.0, "run": result}})
    assert f"Nothing lost: {result['successes']:,} episodes" in page


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["attempt", "length", "dataset"])
def test_what_is_lost_is_noticed(slow_run, tmp_path, fault):
    folder = tmp_path / "run"
    shutil.copytree(slow_run[0], folder)
    path = folder / "attempts.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    success = next(row for row in rows if row["success"])
    if fault == "attempt":
        rows.remove(success)
    elif fault == "length":
        success["length"] += 1
    else:
        run = json.loads((folder / "run.json").read_text())
        run["counts"]["episodes"] += 1
        (folder / "run.json").write_text(json.dumps(run))
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(AssertionError, match=r"missing|other"):
        nothing_lost.check_nothing_lost(folder)


@pytest.mark.slow
def test_growth_at_a_toy_size(tmp_path, capsys):
    main(["growth", "--episodes", "400", "--num-envs", "16", "--out", str(tmp_path)])
    result = json.loads((tmp_path / "soak.json").read_text())["growth"]["run"]
    assert result["attempts"] == 400
    assert (tmp_path / "soak.md").read_text() == report.render(json.loads((tmp_path / "soak.json").read_text()))
    assert (tmp_path / "growth.png").stat().st_size > 10_000
    assert "400 attempts" in capsys.readouterr().out


def test_the_committed_page_is_that_of_the_committed_figures():
    results = json.loads((RESULTS / "soak.json").read_text())
    assert (RESULTS / "soak.md").read_text() == report.render(results)
    assert all(result["run"]["rss_flat"] for result in results.values())


def test_a_run_that_fails_says_where_its_output_is(tmp_path):
    with pytest.raises(RuntimeError, match=r"output\.txt"):
        runs.measure_growth(tmp_path, episodes=0)


def test_an_unknown_section_is_refused(capsys):
    with pytest.raises(SystemExit):
        main(["grow"])
    assert "growth, slow_disk" in capsys.readouterr().err


def _machine():
    return {"cpu": "a", "cpus": 2, "system": "Linux", "versions": {}, "git": None}
