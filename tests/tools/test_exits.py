import argparse
import ast
import importlib
import re
from dataclasses import asdict
from pathlib import Path

import pytest

import mimicpipe.tools
from mimicpipe.errors import ConfigError, RecorderError, SourceDemoError, StallError
from mimicpipe.tools import validate
from mimicpipe.tools.exits import exit_code
from mimicpipe.training.fit import BcSettings

SOURCES = {path.stem: path for path in Path(mimicpipe.tools.__path__[0]).glob("*.py")}
TOOLS = sorted(name for name, path in SOURCES.items() if "__main__" in path.read_text())


def raising(error):
    def work():
        raise error

    return work


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (ConfigError("no such task"), 2, "error: no such task\n"),
        (SourceDemoError("demo_3: no actions"), 2, "error: demo_3: no actions\n"),
        (StallError("nothing moves"), 1, "error: nothing moves\n"),
        (RecorderError("disk full"), 1, "error: disk full\n"),
        (FileNotFoundError(2, "No such file", "x"), 1, "error: [Errno 2] No such file: 'x'\n"),
        (KeyboardInterrupt(), 130, ""),
    ],
)
def test_an_error_is_a_line_and_a_code(error, code, said, capsys):
    assert exit_code(raising(error)) == code
    assert capsys.readouterr() == ("", said)


def test_what_work_returns_is_the_code(capsys):
    assert [exit_code(lambda: 3), exit_code(lambda: None)] == [3, 0]
    assert exit_code(raising(ConfigError("a b")), in_words=str.upper) == 2
    assert exit_code(raising(KeyboardInterrupt()), interrupted="go on later") == 130
    assert capsys.readouterr().err == "error: A B\ngo on later\n"


def test_what_is_no_known_error_keeps_its_traceback():
    with pytest.raises(ZeroDivisionError):
        exit_code(lambda: 1 // 0)


def test_validate_ends_by_ctrl_c_as_the_others_do(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(validate, "open_dataset", lambda root: raising(KeyboardInterrupt())())
    assert validate.main([str(tmp_path)]) == 130
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("name", TOOLS)
def test_no_tool_ends_errors_by_hand(name):
    tree = ast.parse(SOURCES[name].read_text())
    (main,) = (node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "main")
    nodes = list(ast.walk(main))
    assert not [node.lineno for node in nodes if isinstance(node, ast.Try)]
    assert [node for node in nodes if isinstance(node, ast.Call) and ast.unparse(node.func) == "exit_code"]


@pytest.mark.parametrize("name", TOOLS)
def test_help_says_what_the_tool_does_and_what_each_option_means(name, monkeypatch, capsys):
    added, add = [], argparse._ActionsContainer.add_argument
    monkeypatch.setattr(
        argparse._ActionsContainer, "add_argument", lambda self, *names, **kw: added.append(add(self, *names, **kw))
    )
    module = importlib.import_module(f"mimicpipe.tools.{name}")
    monkeypatch.setenv("COLUMNS", "100")
    with pytest.raises(SystemExit, match="0"):
        module.main(["--help"])
    said = capsys.readouterr().out
    assert said.startswith(f"usage: python -m mimicpipe.tools.{name} ")
    assert max(map(len, said.splitlines())) <= 100 or name == "readme_tables"
    words = " ".join(said.split())
    assert words.count("Exit code: 0 ") == 1
    paragraphs = str(module.__doc__).strip().split("\n\n")
    assert re.sub(r":? `.*", "", paragraphs[0].split("\n")[0]) in words
    assert all(" ".join(text.split()) in words for text in paragraphs[1:])
    assert [action.dest for action in added if not (action.help or "")[:1].isalnum()] == []


def test_train_s_help_has_the_settings_of_the_small_policy(monkeypatch, capsys):
    train = importlib.import_module("mimicpipe.tools.train")
    monkeypatch.setenv("COLUMNS", "200")
    with pytest.raises(SystemExit):
        train.main(["--help"])
    said = capsys.readouterr().out
    for name in ("hidden", "chunk", "executed", "steps", "batch"):
        (line,) = (line for line in said.splitlines() if line.strip().startswith(f"--{name} "))
        assert re.search(rf"\(default: (bc )?{asdict(BcSettings())[name]}\b", line), line
