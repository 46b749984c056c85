import json

import pytest

from mimicpipe.errors import ConfigError
from mimicpipe.report.run_files import PAGE
from mimicpipe.report.sweep import is_sweep, read_jobs, swept_keys, write_sweep_page
from mimicpipe.report.sweep_end import end_sweep


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
    assert "killed, or still running" in text


def test_no_job_is_no_sweep(tmp_path, caplog):
    with pytest.raises(ConfigError, match="no folder of a sweep"):
        write_sweep_page(tmp_path)
    end_sweep(tmp_path)
    assert "report.html could not be written" in caplog.text
    assert not (tmp_path / PAGE).exists()
