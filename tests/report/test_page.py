import json
import re
import shutil
from html.parser import HTMLParser

import pytest

from mimicpipe.errors import ConfigError
from mimicpipe.report.page import write_run_page
from mimicpipe.report.run_files import PAGE, REPORT, read_run

VOID = {"meta", "link", "img", "source", "br"}


class Reader(HTMLParser):
    """Checks that elements are closed in order; notes headings, text and addresses."""

    def __init__(self):
        super().__init__()
        self.open, self.headings, self.words, self.addresses = [], [], [], []

    def handle_starttag(self, tag, attrs):
        if tag not in VOID:
            self.open.append(tag)
        self.addresses += [value for name, value in attrs if name in ("src", "href", "srcset")]

    def handle_startendtag(self, tag, attrs):
        pass

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] in ("h2", "h3"):
            self.headings.append(data)
        if not {"script", "style"} & set(self.open):
            self.words.append(data)


def read(path):
    reader = Reader()
    reader.feed(path.read_text(encoding="utf-8"))
    assert reader.open == []
    return reader


@pytest.fixture
def run(finished_run, tmp_path):
    """A copy that may be damaged."""
    return shutil.copytree(finished_run, tmp_path / "run")


def test_a_run_leaves_a_page_with_everything_in_it(finished_run):
    page = read(finished_run / PAGE)
    assert [h for h in page.headings if h in ("Asked for", "Came out", "Where the time went", "Episodes",
                                              "Where objects started", "Go on")] == [
        "Asked for", "Came out", "Where the time went", "Episodes", "Where objects started", "Go on"]  # fmt: skip
    assert {"By outcome", "By source demo", "Paths", "cubeA", "cubeB"} <= set(page.headings)
    words = " ".join(page.words)
    record = json.loads((finished_run / "run.json").read_text())
    assert record["config_hash"] in words
    for told in ("12 of 12 demos", "env.lag=0.86", "success", "not_successful", "Bottleneck:", "demo_0"):
        assert told in words, told
    assert all(address.startswith("data:") for address in page.addresses)
    assert (finished_run / PAGE).stat().st_size < 1_500_000
    assert (finished_run / "preview.gif").read_bytes()[:6] == b"GIF89a"


def test_the_figures_are_those_of_the_run(finished_run):
    report = json.loads((finished_run / REPORT).read_text())
    rows = [json.loads(line) for line in (finished_run / "attempts.jsonl").read_text().splitlines()]
    assert sorted(report["starts"]["attempts"]) == [row["attempt"] for row in rows]
    outcomes = dict(zip(report["starts"]["attempts"], report["starts"]["success"], strict=True))
    assert outcomes == {row["attempt"]: row["success"] for row in rows}
    by_attempt = {row["attempt"]: row for row in rows}
    assert len(report["episodes"]) == 8
    for episode in report["episodes"]:
        row = by_attempt[episode["attempt"]]
        assert (episode["success"], episode["reason"], episode["steps"]) == (
            row["success"],
            row["reason"],
            row["length"],
        )
        assert episode["played"] == row["length"]
        start = report["starts"]["objects"]["cubeA"][report["starts"]["attempts"].index(episode["attempt"])]
        assert episode["objects"]["cubeA"][0][:2] == pytest.approx(start, abs=1e-3)


def test_an_episode_that_was_not_played_to_its_end_says_so_and_shows_no_end(run, finished_run):
    report = json.loads((run / REPORT).read_text())
    whole = (finished_run / PAGE).read_text()
    first = report["episodes"][0]
    first["played"] = first["steps"] - 5
    (run / REPORT).write_text(json.dumps(report))
    text = write_run_page(run).read_text()
    told = f"the first {first['steps'] - 5} of {first['steps']} steps"
    assert (text.count(told), whole.count(told)) == (1, 0)
    assert whole.count(f"end of attempt {first['attempt']}<") == 2  # of each cube
    assert text.count(f"end of attempt {first['attempt']}<") == 0
    assert text.count('<circle class="dot ') == whole.count('<circle class="dot ') - 1


def test_objects_that_start_far_apart_each_have_their_window_at_one_scale(run):
    report = json.loads((run / REPORT).read_text())
    report["starts"]["objects"]["cubeA"] = [[x + 2.0, y - 1.0] for x, y in report["starts"]["objects"]["cubeB"]]
    (run / REPORT).write_text(json.dumps(report))
    text = write_run_page(run).read_text()
    figures = [
        text.partition(f"Where {name} started, from above")[2].partition("</svg>")[0] for name in ("cubeA", "cubeB")
    ]
    marks = [re.findall(r"(?:cx=|d=.M)\W?([-\d.]+)", figure) for figure in figures]
    assert marks[0]
    assert [float(x) for x in marks[0]] == pytest.approx([float(x) for x in marks[1]], abs=0.3)


def test_the_page_can_be_written_again_from_the_files(run, finished_run):
    (run / PAGE).unlink()
    old, new = (finished_run / PAGE).read_text(), write_run_page(run).read_text()
    # Commands name the interpreter as it is reached from the working folder.
    before, after = (text.partition("<h2>Go on")[0].replace(str(run), str(finished_run)) for text in (old, new))
    assert before == after


@pytest.mark.parametrize("gone", [["run.json"], ["attempts.jsonl"], ["metrics.jsonl", REPORT], [".hydra"],
                                  ["run.json", REPORT, ".hydra"]], ids=str)  # fmt: skip
def test_what_is_missing_is_left_out(run, gone):
    for name in gone:
        path = run / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    read(write_run_page(run))


def test_half_a_file_is_no_file(run):
    for name in (REPORT, "run.json", "metrics.jsonl", "attempts.jsonl"):
        (run / name).write_bytes((run / name).read_bytes()[:-30])
    page = read(write_run_page(run))
    assert "No run.json" in " ".join(page.words)


def test_a_folder_that_is_no_runs(tmp_path):
    with pytest.raises(ConfigError, match="no output folder of a run"):
        write_run_page(tmp_path)


def test_nothing_in_the_files_becomes_markup(run):
    evil = '</script><b>"x"&'
    record = json.loads((run / "run.json").read_text())
    record |= {"exit_reason": evil, "skipped_source_demos": [evil]}
    (run / "run.json").write_text(json.dumps(record))
    report = json.loads((run / REPORT).read_text())
    report["episodes"][0]["reason"] = evil
    (run / REPORT).write_text(json.dumps(report))
    (run / ".hydra" / "overrides.yaml").write_text(json.dumps([evil]))
    rows = [json.loads(line) for line in (run / "attempts.jsonl").read_text().splitlines()]
    rows[0] |= {"reason": evil, "source_demos": [{"demo": evil}]}
    (run / "attempts.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    page = read(write_run_page(run))
    assert page.words.count(f"Failed: {evil}") == 1
    assert "<b>&" not in (run / PAGE).read_text()
    assert read_run(run).run["exit_reason"] == evil


@pytest.mark.parametrize(("reason", "tone"), [("num_demos", "ok"), ("max_failures", "limit"), ("SIGINT", "bad")])
def test_only_a_run_with_all_its_demos_is_green(run, reason, tone):
    record = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps(record | {"exit_reason": reason}))
    head = write_run_page(run).read_text().partition('<p class="lede">')[2].partition("</p>")[0]
    assert f'<span class="{tone}-text">' in head


def test_a_failed_run_says_so_and_how_to_go_on(run):
    record = json.loads((run / "run.json").read_text())
    record |= {"exit_reason": "StallError: no step", "exit_code": 1, "dataset": None}
    (run / "run.json").write_text(json.dumps(record))
    words = " ".join(read(write_run_page(run)).words)
    assert "Failed: StallError: no step" in words
    assert f"resume={run}" in words
    assert "mimicpipe.tools.recover" in words
