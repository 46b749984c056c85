"""The documentation site: its commands, links and parts are right, and it builds without a warning."""

import importlib.util
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import hydra.version
import pytest
import yaml
from browser import Browser, find_browser
from in_process import ROOT

from mimicpipe.cli import check_command_line
from mimicpipe.tools.readme_tables import render

DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
_SPEC = importlib.util.spec_from_file_location("site_hooks", DOCS / "_hooks.py")
assert _SPEC is not None
assert _SPEC.loader is not None
hooks = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(hooks)


def fenced(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


def commands(page: Path) -> list[str]:
    return [line for block in fenced(page, "bash") for line in block.splitlines() if line]


README = commands(ROOT / "README.md")
"""They have their own tests."""
RUNS = [
    command
    for page in PAGES
    for command in commands(page)
    if command.startswith("python run.py") and command not in README
]


def named(page: Path) -> str:
    return str(page.relative_to(DOCS))


def test_there_are_commands():
    assert len(RUNS) > 15


@pytest.mark.parametrize("command", dict.fromkeys(RUNS))
def test_runs_can_be_composed(command, tmp_path, monkeypatch):
    hydra.version.setbase("1.3")
    monkeypatch.chdir(tmp_path)
    words = [word.replace("examples/conf", str(ROOT / "examples/conf")) for word in shlex.split(command, comments=True)]
    for path in re.findall(r"pool\.path=([\w./]+)", command):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(b"\x89HDF\r\n\x1a\n")
    for path in re.findall(r"generator\.checkpoint=([\w./]+)", command):
        (tmp_path / path).mkdir(parents=True)
        (tmp_path / path / "policy.json").write_text('{"policy": "bc"}')
    assert check_command_line(words[2:], ROOT / "conf")


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_what_a_page_names_is_there(page):
    text = page.read_text(encoding="utf-8")
    for module in set(re.findall(r"python -m ((?:mimicpipe|experiments|examples)[\w.]*)(?=[\s`])", text)):
        path = ROOT.joinpath(*module.split("."))
        assert path.with_suffix(".py").is_file() or (path / "__main__.py").is_file(), module
    for module in re.findall(r"^::: (\S+)$", text, re.MULTILINE):
        assert ROOT.joinpath(*module.split(".")).with_suffix(".py").is_file(), module
    for path in re.findall(r"`((?:conf|examples|experiments|tests|docs|mimicpipe)/[\w/.]+)`", text):
        assert (ROOT / path).exists(), path
    render(text, ROOT)  # raises where a part is of a file or name that does not exist


def test_every_page_is_in_the_navigation():
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    assert set(re.findall(r"- ([\w/]+\.md)$", text, re.MULTILINE)) == {named(page) for page in PAGES}


def test_every_group_has_a_how_to():
    groups = {path.name for path in (ROOT / "conf").iterdir() if path.is_dir()} - {"experiment"}
    for group in groups:
        assert f"<!-- from: keys {group} -->" in (DOCS / "howto" / f"{group}.md").read_text(encoding="utf-8")


def test_links_that_leave_the_site_become_text():
    text = "[a](../x.md) [b](y.md#z) [c](https://example.org/../q) ![d](../p.png) [e](../../up.py)"
    assert hooks.within_site(text, "howto/env.md") == (
        "[a](../x.md) [b](y.md#z) [c](https://example.org/../q) ![d](../p.png) e"
    )
    assert hooks.within_site("[a](../x.md)", "design.md") == "a"


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_tutorial_word_for_word(tmp_path):
    page = DOCS / "tutorial.md"
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").symlink_to(sys.executable)
    environment = {**os.environ, "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    (tmp_path / "run.py").symlink_to(ROOT / "run.py")
    for command in commands(page):
        words = [sys.executable, *shlex.split(command)[1:]]
        done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{command}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    (snippet,) = fenced(page, "python")
    done = subprocess.run([sys.executable, "-c", snippet], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("50 episodes, ")
    assert (tmp_path / "outputs" / "look" / "report.html").is_file()


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    """The site, built as `make docs` does."""
    folder = tmp_path_factory.mktemp("docs") / "site"
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", f"--site-dir={folder}"]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, env=environment)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
    return folder


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_site_has_every_page_with_its_parts(site):
    for page in PAGES:
        text = (site / page.relative_to(DOCS)).with_suffix(".html").read_text(encoding="utf-8")
        assert text.count("<!-- from: ") == page.read_text(encoding="utf-8").count("<!-- from: ")
        assert not re.search(r"<!-- from: [^>]*-->\s*<!-- end -->", text), page
    assert "MimicEnv.target_eef_pose_to_action" in (site / "reference" / "envs.html").read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.browser
@pytest.mark.skipif(find_browser() is None, reason="no Chromium; `apt-get install chromium` brings it")
@pytest.mark.timeout(600)
def test_the_site_in_a_browser_without_network(site, tmp_path):
    program = find_browser()
    assert program is not None
    with Browser(program, tmp_path / "profile") as browser:
        for page in (path.relative_to(DOCS).with_suffix(".html") for path in PAGES):
            for width in (375, 1440):
                browser.open(site / page, width)
                assert browser.complaints == [], page
                assert [address for address in browser.requests if not address.startswith("file:")] == [], page
                assert browser.evaluate("document.documentElement.scrollWidth") <= width, (page, width)
        browser.open(site / "index.html", 1440)
        browser.evaluate("document.querySelector('input[name=query]').focus()")
        browser.evaluate("document.execCommand('insertText', false, 'num_settle_steps')")
        found = (
            "new Promise(done => { const look = () => { const n = document.querySelectorAll('.md-search-result__item');"
            "n.length ? done([...n].map(e => e.textContent).join()) : setTimeout(look, 50) }; look() })"
        )
        assert "num_settle_steps" in browser.evaluate(found)


def test_the_site_asks_for_no_fonts():
    config = yaml.load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"), Loader=yaml.BaseLoader)
    assert config["theme"]["font"] == "false"
    assert config["strict"] == "true"
