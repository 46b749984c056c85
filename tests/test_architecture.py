"""Imports run downward only (DESIGN §4), and nothing heavy is imported before a config is known to be good."""

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "mimicpipe"

LAYERS = (
    {
        "errors",
        "compiled",
        "rng",
        "poses",
        "schema",
        "generator_config",
        "planner_config",
        "pool_config",
        "isaaclab_config",
        "cluster_config",
        "config",
    },
    {"pipeline"},
    {"datagen"},
    {"recorders", "pools", "envs", "planners"},
    {"trackers", "report", "convert"},
    {"preflight", "signals", "stdout", "failures", "build", "resume", "runner", "cli", "cluster", "local_page"}
    | {"collect", "annotate", "training", "tools"},
)
HEAVY = {"torch", "lerobot", "wandb", "mujoco", "tensorboard", "h5py", "matplotlib", "datasets", "pandas", "av"}
LATE = {"lerobot", "wandb", "tensorboard", "matplotlib", "datasets", "pandas", "av"}
"""Imported inside functions only, wherever they are used."""


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def imports(path: Path, *, late: bool = True) -> Iterator[tuple[str, int]]:
    """(dotted name, line) of every absolute import; without `late`, only of those that importing the module runs."""
    stack: list[ast.AST] = [ast.parse(path.read_text(encoding="utf-8"))]
    while stack:
        node = stack.pop()
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: relative import"
            yield from ((f"{node.module}.{alias.name}", node.lineno) for alias in node.names)
        elif not late and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        elif not late and isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            stack.extend(node.orelse)
            continue
        stack.extend(ast.iter_child_nodes(node))


def layer_of(name: str) -> int:
    return next(i for i, names in enumerate(LAYERS) if name in names)


def part_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def test_every_part_has_a_layer():
    parts = {part_of(path) for path in modules()} - {"__init__"}
    assert parts <= set().union(*LAYERS)


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_run_downward(path):
    if path.parent == PACKAGE and path.name == "__init__.py":
        assert not list(imports(path))
        return
    own = layer_of(part_of(path))
    upward = [
        f"{path.relative_to(ROOT)}:{line}: {name}"
        for name, line in imports(path)
        if name.startswith("mimicpipe.") and name != "mimicpipe.__version__" and layer_of(name.split(".")[1]) > own
    ]
    assert upward == []


@pytest.mark.parametrize("package", ["pipeline", "datagen"])
def test_the_core_knows_no_simulator_no_file_format_and_no_hydra(package):
    forbidden = LATE | {"hydra", "omegaconf", "mujoco", "h5py", "rich"}
    found = [
        f"{path.relative_to(ROOT)}:{line}: {name}"
        for path in (PACKAGE / package).rglob("*.py")
        for name, line in imports(path)
        if name.split(".")[0] in forbidden
    ]
    assert found == []


def test_slow_packages_are_imported_late():
    found = [
        f"{path.relative_to(ROOT)}:{line}: {name}"
        for path in modules()
        for name, line in imports(path, late=False)
        if name.split(".")[0] in LATE
    ]
    assert found == []


def module_file(name: str) -> Path | None:
    """File of a mimicpipe module, or of the module that a dotted name lies in."""
    path = ROOT.joinpath(*name.split("."))
    candidates = (path.with_suffix(".py"), path / "__init__.py", path.parent.with_suffix(".py"))
    return next((c for c in candidates if c.is_file()), None)


def test_the_command_line_is_checked_without_a_heavy_import():
    reached, queue = set(), [ROOT / "run.py"]
    while queue:
        path = queue.pop()
        if path in reached:
            continue
        reached.add(path)
        for name, line in imports(path, late=False):
            assert name.split(".")[0] not in HEAVY, f"{path.relative_to(ROOT)}:{line}: {name}"
            if name.startswith("mimicpipe") and (file := module_file(name)) is not None:
                queue.append(file)
    assert PACKAGE / "cli.py" in reached
    assert PACKAGE / "runner.py" in reached


def test_files_stay_small():
    long = {str(p.relative_to(ROOT)): n for p in modules() if (n := len(p.read_text().splitlines())) > 400}
    assert long == {}


def test_no_folder_of_tests_passes_for_a_package_that_may_be_missing():
    """The folder above it is on sys.path, so `importorskip` would take it for the package."""
    tables = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*tables["dependencies"], *(name for names in tables["optional-dependencies"].values() for name in names)]
    packages = {re.split(r"[^\w-]", name)[0].replace("-", "_") for name in wanted} | {"warp", "rerun"}
    folders = {path.name for path in (ROOT / "tests").rglob("*") if path.is_dir()}
    assert folders & packages == set()
