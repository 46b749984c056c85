"""What README.md says is so: its tables, links, commands, output tree and snippets."""

import json
import re
import shlex
from dataclasses import fields
from pathlib import Path

import hydra.version
import pytest
from in_process import ROOT, run_main

from mimicpipe.cli import check_command_line
from mimicpipe.config import GROUPS
from mimicpipe.errors import ConfigError
from mimicpipe.pipeline.episode import Outcome
from mimicpipe.signals import EXIT_CODES
from mimicpipe.tools import readme_tables
from mimicpipe.tools.config_keys import group_section, run_section

CONF = ROOT / "conf"
README = (ROOT / "README.md").read_text(encoding="utf-8")
DESIGN = (ROOT / "docs" / "design.md").read_text(encoding="utf-8")
pytestmark = pytest.mark.timeout(180)  # the imports of a busy machine


def fenced(text: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


COMMANDS = [
    line
    for block in fenced(README, "bash")
    for line in block.splitlines()
    if line.startswith("python run.py") and "my_project" not in line
]


def test_parts_that_come_from_other_files_are_up_to_date():
    assert readme_tables.render(README, ROOT) == README, "run python -m mimicpipe.tools.readme_tables"
    assert readme_tables.main(["--check"]) == 0


def test_every_group_has_its_table():
    for group in ("run", *GROUPS, "experiment"):
        assert f"<!-- from: keys {group} -->" in README


def test_every_key_has_a_meaning():
    tables = [run_section(CONF), *(group_section(CONF, group) for group in GROUPS)]
    rows = [line for table in tables for line in table.splitlines() if line.startswith("| `")]
    assert len(rows) > 50
    assert [row for row in rows if row.endswith("|  |")] == []


@pytest.mark.parametrize("page", ["README.md", "docs/design.md"])
def test_links_lead_somewhere(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    targets = re.findall(r"\]\(([^)\s]+)\)", text)
    assert targets
    headings = {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in re.findall(r"^#+ (.*)$", text, re.M)}
    for target in targets:
        path, _, anchor = target.partition("#")
        assert not path or (ROOT / page).parent.joinpath(path).exists(), target
        assert path or anchor in headings, target


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_can_be_run(command, tmp_path, monkeypatch):
    hydra.version.setbase("1.3")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_demos.hdf5").touch()
    (tmp_path / "my_dataset").mkdir()
    (tmp_path / "my_policy").mkdir()
    (tmp_path / "my_policy" / "policy.json").write_text('{"policy": "bc"}')
    words = [
        word.replace("examples/conf", str(ROOT / "examples" / "conf")) for word in shlex.split(command, comments=True)
    ]
    assert check_command_line(words[2:], CONF)
    assert {path.name for path in tmp_path.iterdir()} == {"my_demos.hdf5", "my_dataset", "my_policy"}


def test_modules_named_in_commands_exist():
    for name in set(re.findall(r"python -m ([\w.]+)(?=[\s`])", README + DESIGN)):
        path = ROOT.joinpath(*name.split("."))
        assert path.with_suffix(".py").is_file() or (path / "__main__.py").is_file(), name


def test_exit_codes():
    assert f"| {', '.join(map(str, EXIT_CODES.values()))} | ended by SIGINT" in README


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """The output folder of a small run, made as the README says."""
    cwd = tmp_path_factory.mktemp("readme")
    assert run_main(["env=kinematic", "num_demos=4", "env.num_envs=4"], cwd) == 0
    (made,) = cwd.glob("outputs/*/*")
    return made


def tree_of_the_readme() -> list[str]:
    """Paths below the output folder, as the README draws them; a folder ends with a slash."""
    match = re.search(r"<!-- tree -->\n```\n(.*?)```", README, re.DOTALL)
    assert match is not None
    paths, stack = [], []
    for line in match[1].splitlines()[1:]:
        depth = (len(line) - len(line.lstrip())) // 2 - 1
        stack[depth:] = [line.split()[0]]
        paths.append("".join(stack))
    return paths


def test_the_output_tree(folder):
    drawn = tree_of_the_readme()
    parents = {path for path in drawn if path.endswith("/") and any(p != path and p.startswith(path) for p in drawn)}
    closed = {path for path in drawn if path.endswith("/")} - parents  # drawn without what is in them
    found = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    inside = {path for path in found if any(path.startswith(c) for c in closed)}
    assert found - inside == {path for path in drawn if not path.endswith("/")}
    assert {path.split("/")[0] + "/" for path in inside} == closed


def test_metrics_and_rows(folder):
    row = json.loads((folder / "metrics.jsonl").read_text().splitlines()[-1])
    section = README.split("**metrics.jsonl**")[1].split("\n## ")[0]
    named = set(re.findall(r"`(\w+/\w+)`", section))
    assert named == set(row) - {"time", "wall_s", "env_steps"}
    attempt = json.loads((folder / "attempts.jsonl").read_text().splitlines()[0])
    assert set(attempt) == {field.name for field in fields(Outcome)}
    paragraph = README.split("**attempts.jsonl**")[1].split("\n\n")[0]
    assert set(attempt) <= set(re.findall(r"`(\w+)`", paragraph))


def test_the_snippet_opens_the_dataset(folder, capsys):
    match = re.search(r"<!-- runs on a dataset -->\n```python\n(.*?)```", README, re.DOTALL)
    assert match is not None
    code = match[1].replace("outputs/<day>/<time>", str(folder))
    assert code != match[1]
    exec(compile(code, "README.md", "exec"), {})
    out = capsys.readouterr().out.splitlines()
    frames = json.loads((folder / "run.json").read_text())["counts"]["frames"]
    assert out[0].startswith(f"{frames} frames at 20 Hz")
    assert [line.split()[:2] for line in out[-4:]] == [[str(i), str(i)] for i in range(4)]


@pytest.mark.parametrize(
    ("part", "fault"),
    [
        ("<!-- from: keys nope -->\n<!-- end -->", "no group nope"),
        ("<!-- from: tables x -->\n<!-- end -->", "no such kind; valid: keys"),
        ("<!-- from: file nope.py -->\n<!-- end -->", "nope.py"),
        ("<!-- from: code run.py nope -->\n<!-- end -->", "run.py: no nope"),
        ("<!-- from: file run.py -->", "not closed"),
    ],
)
def test_a_part_that_cannot_be_made_is_one_line(part, fault):
    with pytest.raises(ConfigError, match=re.escape(fault)):
        readme_tables.render(part, ROOT)


def test_results_are_nested_below_their_heading(tmp_path):
    part = "<!-- from: results some/experiment -->\n<!-- end -->"
    assert "Not measured yet; `python -m some.experiment` does it." in readme_tables.render(part, tmp_path)
    pages = tmp_path / "some" / "experiment" / "results"
    pages.mkdir(parents=True)
    (pages / "a.md").write_text("# Title\n\n## Part\n\n| x |\n")
    text = readme_tables.render(part, tmp_path)
    assert text == "<!-- from: results some/experiment -->\n\n#### Part\n\n| x |\n\n<!-- end -->"
    assert readme_tables.render(text, tmp_path) == text


def test_the_command_writes_what_the_check_finds(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("<!-- from: code run.py main -->\n<!-- end -->\n")
    assert readme_tables.main(["--check", str(page)]) == 1
    assert readme_tables.main([str(page)]) == 0
    assert "def main() -> int:" in page.read_text()
    assert readme_tables.main(["--check", str(page)]) == 0
    assert readme_tables.main([str(tmp_path / "none.md")]) == 2
