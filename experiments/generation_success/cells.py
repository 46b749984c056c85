"""The cells of the experiment (a task in a variant) and what their `attempts.jsonl` say."""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any

from mimicpipe.report.interval import wilson


@dataclass(frozen=True)
class Cell:
    """A task in a variant, the success rate it must reach and the published one."""

    task: str
    variant: str
    goal: float
    published: float | None
    """Generation success of the task of the same name and variant: MimicGen's (Mandlekar et al., CoRL 2023, appendix),
    or, with generator=skillgen, SkillMimicGen's (Garrett et al., CoRL 2024)."""
    generator: str = "mimicgen"

    @property
    def name(self) -> str:
        """Folder of the cell."""
        return f"{self.task}_{self.variant}" + ("" if self.generator == "mimicgen" else f"_{self.generator}")

    @property
    def overrides(self) -> tuple[str, ...]:
        """The cell on `run.py`'s command line."""
        what = f"task={self.task}", f"task.variant={self.variant}", f"generator={self.generator}"
        return ("experiment=generation_success", *what)


def _cells(task: str, *rates: float) -> tuple[Cell, ...]:
    """The variants D0, D1, ... of a task, each to be at MimicGen's rate or above."""
    return tuple(Cell(task, f"D{index}", rate, rate) for index, rate in enumerate(rates))


_SKILLGEN = {"square": 0.88, "threading": 0.74, "three_piece_assembly": 0.69, "coffee": 0.70}
_TWO_ARMS = ("bimanual_lift", "bimanual_handover", "bimanual_threading")

CELLS = (
    Cell("pick", "D0", 0.98, None),
    Cell("pick", "D1", 0.95, None),
    Cell("stack", "D0", 0.94, 0.94),
    Cell("stack", "D1", 0.90, 0.90),
    *_cells("stack_three", 0.71, 0.69),
    *_cells("square", 0.74, 0.49, 0.32),
    *_cells("coffee", 0.78, 0.64, 0.28),
    *_cells("drawer_cleanup", 0.48, 0.20),
    *_cells("threading", 0.51, 0.39, 0.22),
    *_cells("three_piece_assembly", 0.36, 0.36, 0.31),
    *(Cell(task, variant, 0.90, None) for task in _TWO_ARMS for variant in ("D0", "D1")),
)
SKILLGEN_CELLS = tuple(Cell(task, "D2", rate, rate, "skillgen") for task, rate in _SKILLGEN.items())
"""Run when they are named; planning makes them slow."""


def read_attempts(folder: Path) -> list[dict[str, Any]]:
    """Rows of a run's attempts.jsonl; none where there is no such file."""
    path = folder / "attempts.jsonl"
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.is_file() else []


def summarize(cell: Cell, attempts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """One row of the table."""
    successes = sum(row["success"] for row in attempts)
    rate, (low, high) = successes / len(attempts), wilson(successes, len(attempts))
    return {
        "task": cell.task,
        "variant": cell.variant,
        "generator": cell.generator,
        "attempts": len(attempts),
        "successes": successes,
        "success_rate": rate,
        "wilson_95": [low, high],
        "goal": cell.goal,
        "goal_met": rate >= cell.goal,
        "published": cell.published,
        "failures": dict(Counter(row["reason"] for row in attempts if not row["success"]).most_common()),
        "mean_length": mean(row["length"] for row in attempts),
        "mean_length_of_demos": _mean(row["length"] for row in attempts if row["success"]),
        "failed_attempts": [row["attempt"] for row in attempts if not row["success"]],
    }


def _mean(values: Iterable[float]) -> float | None:
    listed = list(values)
    return mean(listed) if listed else None
