import re
import shutil
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

from in_process import run_main

from mimicpipe.tools import report
from mimicpipe.tools.saved_run import composed_config, saved_config

QUICK = ["env=kinematic", "env.num_envs=4", "tracker=none", "num_demos=3"]


@pytest.fixture(scope="module")
def sweep(tmp_path_factory):
    """A sweep of two jobs, one of which fails, and what it left."""
    folder = tmp_path_factory.mktemp("sweep") / "multirun"
    arguments = ["-m", *QUICK, "task=pick,stack", "max_failures=1", f"hydra.sweep.dir={folder}"]
    assert run_main(arguments, folder.parent) == 0
    return folder


def test_a_sweep_leaves_its_page_and_each_jobs(sweep):
    text = (sweep / "report.html").read_text()
    assert "<h1>task</h1>" in text
    assert 'href="0/report.html"' in text
    assert 'href="1/report.html"' in text
    for job in ("0", "1"):
        assert (sweep / job / "preview.gif").is_file()


def test_a_page_is_written_anew_for_a_run_and_for_a_sweep(sweep, capsys):
    pages = [sweep / "report.html", sweep / "0" / "report.html", sweep / "1" / "report.html"]
    for page in pages:
        page.unlink()
    assert report.main([str(sweep), "--jobs"]) == 0
    assert all(page.is_file() for page in pages)
    assert len(capsys.readouterr().out.splitlines()) == 3


def test_episodes_are_played_again(sweep, tmp_path, capsys):
    run = shutil.copytree(sweep / "0", tmp_path / "run")
    for name in ("report.json", "preview.gif", "report.html"):
        (run / name).unlink()
    assert report.main([str(run)]) == 0
    assert "data:image/webp" not in (run / "report.html").read_text()
    assert report.main([str(run), "--episodes"]) == 0
    said = capsys.readouterr().err
    time = r"(?:\d+ ms|[\d.]+ s)"
    assert re.fullmatch(
        rf"3 episodes played and drawn in {time}, the page written in {time}"
        rf" \([\d.]+ % and [\d.]+ % of the run's {time}\)\n",
        said,
    )
    assert (run / "report.html").read_text().count("<img") == 3
    assert (run / "preview.gif").is_file()


def test_the_config_is_the_same_from_either_file(sweep):
    assert composed_config(sweep / "0").hash() == saved_config(sweep / "0").hash()


@pytest.mark.parametrize("name", ["missing", "empty"])
def test_no_run_is_one_line(tmp_path, capsys, name):
    (tmp_path / "empty").mkdir()
    assert report.main([str(tmp_path / name)]) == 2
    assert capsys.readouterr().err.count("\n") == 1
