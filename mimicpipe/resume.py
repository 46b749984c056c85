"""`resume=RUN`: go on with an interrupted run, in its folder and with its config, to exactly the same dataset.

An attempt depends on its number and the seed alone, and attempts are settled in order; so what is left to do begins at
the first attempt that is not known to be settled. A demo is settled once its episode is durable. What the interrupted
run has staged behind that attempt is written again, with the same bits.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from mimicpipe.config import RunConfig, check
from mimicpipe.errors import ConfigError
from mimicpipe.recorders.staged import StagedRun
from mimicpipe.recorders.staging_area import is_published, staged_logs, staging_path

Row = dict[str, Any]
"""A row of attempts.jsonl."""

_PREFIX = "resume="
_MAY_CHANGE = {"env": ("num_envs", "threads"), "recorder": None, "tracker": None}
"""Keys of groups that may be others than before: the dataset does not depend on them."""
_MAY_CHANGE_TOO = ("stall_timeout_s", "strict", "preview", "resume")


def with_resumed_arguments(argv: Sequence[str]) -> list[str]:
    """The command line with, for `resume=RUN`, the overrides that RUN was started with, and its output folder.

    Raises:
        ConfigError: RUN is no run's output folder, or a sweep is to be resumed as such.
    """
    given = [argument for argument in argv if argument.startswith(_PREFIX) and argument != f"{_PREFIX}null"]
    if not given:
        return list(argv)
    if "-m" in argv or "--multirun" in argv:
        raise ConfigError(f"{given[-1]}: one run at a time; resume the jobs of a sweep each with its own folder")
    folder = Path(given[-1].removeprefix(_PREFIX)).expanduser().resolve()
    try:
        overrides = OmegaConf.load(folder / ".hydra" / "overrides.yaml")
    except OSError:
        raise ConfigError(f"{given[-1]}: no output folder of a run (no .hydra/overrides.yaml in it)") from None
    before = [str(override) for override in overrides if not str(override).startswith(_PREFIX)]
    others = [argument for argument in argv if argument not in given]
    options = [argument for argument in others if argument.startswith("-")]
    new = [argument for argument in others if not argument.startswith("-")]
    quoted = str(folder).replace("'", "\\'")
    return [*options, *before, *new, f"{_PREFIX}'{quoted}'", f"hydra.run.dir='{quoted}'"]


def check_resumed(config: RunConfig) -> None:
    """Check that a resumed run is the one that was interrupted. The folder's config has not been written again yet.

    Raises:
        ConfigError: a key that the dataset depends on has another value, or there is nothing to go on with.
    """
    if config.resume is None:
        return
    folder = Path(config.resume)
    saved = OmegaConf.load(folder / ".hydra" / "config.yaml")
    assert isinstance(saved, DictConfig)
    saved.setdefault("resume", None)
    before, now = _relevant(check(saved)), _relevant(config)
    for key in sorted(before.keys() | now.keys()):
        if before.get(key) != now.get(key):
            raise ConfigError(
                f"resume={folder}: {key} was {before.get(key)}, and the dataset depends on it; leave it as it was"
            )
    if is_published(Path(config.dataset.root)):
        raise ConfigError(
            f"resume={folder}: the run has published its dataset, so there is nothing to go on with; "
            f"if it was interrupted afterwards, 'python -m mimicpipe.tools.recover {folder}' does the rest"
        )


def _relevant(config: RunConfig) -> dict[str, Any]:
    """{dotted key: value} of what the dataset depends on."""
    plain = {key: value for key, value in config.to_dict().items() if key not in _MAY_CHANGE_TOO}
    found: dict[str, Any] = {"recorder.save_failed": config.recorder["save_failed"]}
    for key, value in plain.items():
        if key in _MAY_CHANGE and _MAY_CHANGE[key] is None:
            continue
        if isinstance(value, dict):
            left_out = _MAY_CHANGE.get(key) or ()
            found |= {f"{key}.{name}": item for name, item in value.items() if name not in left_out}
        else:
            found[key] = value
    del found["dataset.root"]  # absolute by now, or relative to a folder that may have been moved
    return found


@dataclass(frozen=True)
class Settled:
    """What an interrupted run has settled."""

    rows: list[Row] = field(default_factory=list)
    """Of attempts 0, 1, ... in order."""
    demos: int = 0
    """Episodes of the dataset that are kept."""
    failed: int = 0
    """Likewise of the dataset of failed attempts."""

    @property
    def outcomes(self) -> list[bool]:
        """Whether each attempt was a success."""
        return [bool(row["success"]) for row in self.rows]

    @property
    def errors_in_a_row(self) -> int:
        """Attempts at the end that all ended with an exception."""
        count = 0
        for row in reversed(self.rows):
            if not row["reason"].startswith("error:"):
                break
            count += 1
        return count


def settled_attempts(attempts: Path, root: Path, failed_root: Path | None) -> Settled:
    """The attempts, from the first, whose outcome is written down and whose episode, if it has one, is durable.

    Args:
        attempts: attempts.jsonl of the interrupted run.
        root: root of its dataset.
        failed_root: root of the dataset of failed attempts, if there is to be one.
    """
    from mimicpipe.report.attempts import read_attempts

    known = read_attempts(attempts)
    durable = _durable(root)
    failed = None if failed_root is None else _durable(failed_root)
    rows: list[Row] = []
    while (row := known.get(len(rows))) is not None:
        attempt = len(rows)
        if row["success"] and durable.get(attempt) != row["episode_index"]:
            break
        if not row["success"] and failed is not None and _has_episode(row) and attempt not in failed:
            break
        rows.append(row)
    demos = sum(bool(row["success"]) for row in rows)
    kept = 0 if failed is None else sum(attempt < len(rows) for attempt in failed)
    return Settled(rows, demos, kept)


def _has_episode(row: Row) -> bool:
    return row["length"] > 0 and row["reason"] != "nonfinite"


def _durable(root: Path) -> dict[int, int]:
    """{attempt: index of its episode} of what is staged beside a root."""
    return {meta["attempt"]: meta["index"] for meta in StagedRun(staged_logs(staging_path(root))).metas}
