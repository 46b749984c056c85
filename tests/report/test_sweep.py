import html
import json

import pytest
from omegaconf import OmegaConf

from mimicpipe.errors import ConfigError
from mimicpipe.report.run_files import PAGE
from mimicpipe.report.sweep import is_sweep, read_jobs, swept_keys, write_sweep_page
from mimicpipe.report.sweep_end import SweepReport, end_sweep, reported_sweep


def job(folder, overrides, **record):
    (folder / ".hydra").mkdir(parents=True)
    (folder / ".hydra" / "overrides.yaml").write_text(json.dumps(overrides))
    if record:
        (folder / "run.json").write_text(json.dumps(record))


@pytest.fixture
def sweep(tmp_path):
    counts = {"attempts": 10, "successes": 9}
    job(tmp_path / "0", ["seed=0", "num_demos=9"], exit_reason="num_demos", counts=counts, wall_s=2.0,
        rates={"demos_per_hour": 100.0})  # fmt: skip
    job(tmp_path / "1", ["seed=1", "num_demos=9"], exit_reason="RuntimeError: <boom>", counts=counts)
    for number in range(2, 12):
        job(tmp_path / str(number), [f"seed={number}", "num_demos=9"])
    return tmp_path


def test_jobs_come_in_order_with_what_was_swept(sweep):
    jobs = read_jobs(sweep)
    assert [found.folder.name for found in jobs] == [str(k) for k in range(12)]
    assert swept_keys(jobs) == (["seed"], {"num_demos": "9"})
    assert [found.good for found in jobs[:3]] == [True, False, False]
    assert is_sweep(sweep)
    assert not is_sweep(sweep / "0")


def test_the_page_compares_them(sweep):
    text = write_sweep_page(sweep).read_text()
    assert "<b>12 jobs</b>" in text
    assert "1 complete" in text
    assert "RuntimeError: &lt;boom&gt;" in text
    assert "90.0 %" in text
    assert "Demos per hour" in text
    assert "<th class=num>attempts</th>" in text
    assert "Generate the same again" not in text  # Hydra has left nothing of how it was started
    assert "killed, or still running" in text
    assert f"; failed: {', '.join(map(str, range(1, 12)))}.</p>" in text


def test_a_job_that_came_to_a_limit_is_not_complete(tmp_path):
    for number, reason in enumerate(("num_demos", "max_failures", "max_attempts")):
        job(tmp_path / str(number), [f"seed={number}"], exit_reason=reason)
    text = write_sweep_page(tmp_path).read_text()
    assert '<span class="ok-text">1 complete</span>, <span class="limit-text">2 ended at max_attempts or' in text
    assert "failed" not in text.partition("<h2>")[0].partition("<body>")[2]
    assert text.count('<span class="limit-text">Ended at max_') == 2
    (tmp_path / "0" / "run.json").write_text(json.dumps({"exit_reason": "max_attempts"}))
    assert "<b>3 jobs</b>, none complete, <span" in write_sweep_page(tmp_path).read_text()


def test_the_page_has_the_command_that_makes_the_sweep_again(sweep):
    given = {"hydra": ["hydra/launcher=joblib", "hydra.sweep.dir=/tmp/x", "hydra.mode=MULTIRUN"],
             "task": ["seed=0,1", "env.cameras=[front,wrist]"]}  # fmt: skip
    (sweep / "multirun.yaml").write_text(json.dumps({"hydra": {"overrides": given}}))
    words = html.unescape(write_sweep_page(sweep).read_text())
    assert "run.py -m hydra/launcher=joblib seed=0,1 'env.cameras=[front,wrist]'</pre>" in words
    assert f"mimicpipe.tools.report {sweep} --jobs</pre>" in words


def test_the_end_names_what_failed_and_what_did_not_begin(sweep, capsys):
    assert end_sweep(sweep, 13) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("sweep: 11 of 13 jobs failed: 1 (seed=1); 2 (seed=2); ")
    assert line.endswith("; 11 (seed=11); 1 of 13 jobs did not begin")


def test_a_good_end_is_quiet(tmp_path, capsys):
    for number in range(2):
        job(tmp_path / str(number), [f"seed={number}"], exit_reason="max_attempts", exit_code=0)
    assert end_sweep(tmp_path, 2) == 0
    assert end_sweep(tmp_path) == 0
    assert capsys.readouterr().err == ""
    job(tmp_path / "2", ["seed=2"], exit_reason="ConfigError: no", exit_code=2)
    assert end_sweep(tmp_path, 3) == 2


def test_a_sweep_is_reported_whatever_ends_it(tmp_path, capsys):
    config = OmegaConf.create({"hydra": {"sweep": {"dir": str(tmp_path)}}})
    job(tmp_path / "0", ["seed=0"], exit_reason="RuntimeError: boom", exit_code=1)
    with pytest.raises(ZeroDivisionError), reported_sweep(2) as end:  # noqa: PT012 - what is raised ends the sweep
        SweepReport().on_multirun_start(config)
        raise ZeroDivisionError
    assert end.exit_code == 1
    assert capsys.readouterr().err == "sweep: 1 of 2 jobs failed: 0; 1 of 2 jobs did not begin\n"
    assert (tmp_path / PAGE).exists()
    with reported_sweep(1) as end:
        pass  # a single run, that has nothing to do with the sweep before
    assert end.exit_code == 0


def test_no_job_is_no_sweep(tmp_path):
    with pytest.raises(ConfigError, match="no folder of a sweep"):
        write_sweep_page(tmp_path)
    assert end_sweep(tmp_path) == 0
    assert not (tmp_path / PAGE).exists()


def test_a_page_that_cannot_be_written_is_a_warning(sweep, caplog):
    (sweep / PAGE).mkdir()
    assert end_sweep(sweep) == 1
    assert "report.html could not be written" in caplog.text
