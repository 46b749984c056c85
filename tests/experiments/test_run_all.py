"""Every experiment keeps to the same form, and all can be run by one command."""

import importlib
import re

import pytest

from experiments.harness import CONF, ROOT
from experiments.run_all import discover, main

NAMES = discover()


def test_all_are_found():
    assert {"ablations", "chaos", "determinism", "generation_success", "recorder", "soak", "throughput"} <= set(NAMES)
    assert {path.name for path in (ROOT / "experiments").iterdir() if (path / "__init__.py").exists()} == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_readme_has_claim_command_runtime_result_and_how_to_read_it(name):
    text = (ROOT / "experiments" / name / "README.md").read_text()
    command = rf"^    (.*[ /])?python -m experiments\.{name}\b"
    parts = (r"^\*\*Claim\.\*\*", command, r"^\*\*Result\.\*\*", "^## How to read it$")
    found = [re.search(part, text, re.MULTILINE) for part in parts]
    assert [part for part, match in zip(parts, found, strict=True) if match is None] == []
    places = [match.start() for match in found if match is not None]
    assert places == sorted(places)
    above = text[: text.index("**Result.**")]
    assert re.search(r"\b(second|minute|hour)s?\b|\bhalf an hour\b", above), "how long does it take?"
    assert "--smoke" in text
    for link in re.findall(r"\]\((?!http)([^)#]+)", text):
        measured = "once it has been measured" not in text or not link.startswith("results/")
        assert (ROOT / "experiments" / name / link).exists() or not measured, link


def test_all_are_in_the_list():
    text = (ROOT / "experiments" / "README.md").read_text()
    assert set(re.findall(r"^\| \[(\w+)\]\(\1\) \| ", text, re.MULTILINE)) == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_it_has_a_toy_size(name, capsys):
    entry = importlib.import_module(f"experiments.{name}.__main__")
    with pytest.raises(SystemExit, match="0"):
        entry.main(["--help"])
    assert "--smoke" in capsys.readouterr().out


def test_configs_of_experiments_belong_to_one():
    assert {path.stem for path in (CONF / "experiment").glob("*.yaml")} <= set(NAMES)


@pytest.fixture
def two(tmp_path):
    """Two experiments that write what they were told; the first one fails."""
    folder = tmp_path / "toys"
    for name, code in (("bad", 3), ("good", 0)):
        (folder / name).mkdir(parents=True)
        script = f"import pathlib, sys\npathlib.Path('{name}.txt').write_text(str(sys.argv[1:]))\nsys.exit({code})\n"
        (folder / name / "__main__.py").write_text(script)
    return folder


def test_one_that_fails_does_not_stop_the_others(two, capsys):
    assert main(["--smoke"], two) == 1
    assert [(two.parent / f"{name}.txt").read_text() for name in ("bad", "good")] == ["['--smoke']"] * 2
    lines = capsys.readouterr().err.splitlines()
    assert re.fullmatch(r"== bad: exit code 3, \d+ s \(\d+ s of CPU time\)", lines[1])
    assert re.fullmatch(r"1 of 2 experiments in \d+ s; failed: bad", lines[-1])


def test_some_of_them(two, capsys):
    assert main(["good"], two) == 0
    assert (two.parent / "good.txt").read_text() == "[]"
    assert not (two.parent / "bad.txt").exists()
    with pytest.raises(SystemExit, match="2"):
        main(["god"], two)
    assert "no such experiment: god; choose from bad, good" in capsys.readouterr().err


def test_a_toy_size_writes_what_the_full_one_has_written(two, capsys):
    (two / "bad" / "__main__.py").unlink()
    (two / "good" / "results").mkdir()
    for name in ("table.md", "figure.png"):
        (two / "good" / "results" / name).touch()
    script = "import pathlib\nout = pathlib.Path('outputs/smoke/good')\nout.mkdir(parents=True)\n"
    (two / "good" / "__main__.py").write_text(script + "(out / 'table.md').touch()\n")
    (two.parent / "outputs" / "smoke" / "good").mkdir(parents=True)
    (two.parent / "outputs" / "smoke" / "good" / "figure.png").touch()  # of an earlier run, which is cleared away
    assert main(["--smoke"], two) == 1
    assert "== good: did not write figure.png, " in capsys.readouterr().err
    (two / "good" / "__main__.py").write_text(script + "[(out / n).touch() for n in ('table.md', 'figure.png')]\n")
    assert main(["--smoke"], two) == 0
    (two / "good" / "results" / "table.md").unlink()
    assert main([], two) == 1  # at full size nothing is cleared away, and so this toy fails


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_every_experiment_runs_at_its_toy_size():
    assert main(["--smoke"]) == 0
