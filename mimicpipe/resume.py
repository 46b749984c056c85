"""`resume=RUN`: go on with an interrupted run, in its folder and with its config, to exactly the same dataset.

An attempt depends on its number and the seed alone, and attempts are settled in order; so what is left to do begins at
the first attempt that is not known to be settled. A demo is settled once its episode is durable: in the logs of a run
that was killed, in the dataset of one that a signal has ended. What a killed run has staged behind that attempt is
written again, with the same bits.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omegaconf import DictConfig, OmegaConf

from mimicpipe.config import RunConfig, check
from mimicpipe.errors import ConfigError
from mimicpipe.pool_config import GROWING_POOL
from mimicpipe.preflight import NULL_RECORDER
from mimicpipe.recorders.layout import BY_ATTEMPT
from mimicpipe.recorders.staged import StagedRun
from mimicpipe.recorders.staging_area import has_base, is_published, put_back, staged_logs, staging_path

if TYPE_CHECKING:
    from mimicpipe.pipeline.telemetry import Counters

Row = dict[str, Any]
"""A row of attempts.jsonl."""

_PREFIX = "resume="
_MAY_CHANGE = {"env": ("num_envs", "threads"), "recorder": None, "tracker": None, "cluster": None}
"""Keys of groups that may be others than before: the dataset does not depend on them."""
ENDED = ("num_demos", "max_attempts", "max_failures")
"""Why a run ends of which nothing is left to do."""
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
    if config.pool["_target_"] == GROWING_POOL:
        raise ConfigError(f"resume={folder}: the demos that pool=growing had taken up are gone; start the run again")
    saved = OmegaConf.load(folder / ".hydra" / "config.yaml")
    assert isinstance(saved, DictConfig)
    saved.setdefault("resume", None)
    saved.setdefault("cluster", {})
    was = check(saved)
    if was.cluster["_target_"] != config.cluster["_target_"]:
        raise ConfigError(
            f"resume={folder}: what several workers have staged is not what one process has; leave cluster as it was"
        )
    before, now = _relevant(was), _relevant(config)
    for key in sorted(before.keys() | now.keys()):
        if before.get(key) != now.get(key):
            raise ConfigError(
                f"resume={folder}: {key} was {before.get(key)}, and the dataset depends on it; leave it as it was"
            )
    if config.recorder["_target_"] == NULL_RECORDER:
        raise ConfigError(f"resume={folder}: recorder=none keeps no episodes to go on with; start the run again")
    root = Path(config.dataset.root)
    if staging_path(root).is_dir() and is_published(root):
        raise ConfigError(
            f"resume={folder}: the run was killed when its dataset was complete; "
            f"'python -m mimicpipe.tools.recover {folder}' does the rest"
        )
    if root.exists() and (reason := _exit_reason(folder)) in ENDED:
        raise ConfigError(f"resume={folder}: the run has ended ({reason}), so there is nothing to go on with")


def _exit_reason(folder: Path) -> str | None:
    """Why a run has ended, as run.json has it; None if it has none."""
    try:
        return json.loads((folder / "run.json").read_text(encoding="utf-8"))["exit_reason"]
    except (OSError, ValueError, KeyError):
        return None


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

    def count(self, counters: "Counters") -> None:
        """Let a run's counters begin with these attempts."""
        counters.episodes_committed = self.demos
        counters.frames_committed = sum(row["length"] for row in self.rows if row["episode_index"] is not None)
        counters.errors_in_a_row = self.errors_in_a_row
        for row in self.rows:
            counters.reasons[row["reason"]] = counters.reasons.get(row["reason"], 0) + 1


def settled_attempts(attempts: Path, root: Path, failed_root: Path | None, overwrite: bool = False) -> Settled:
    """The attempts, from the first, whose outcome is written down and whose episode, if it has one, is durable.

    Args:
        attempts: attempts.jsonl of the interrupted run.
        root: root of its dataset.
        failed_root: root of the dataset of failed attempts, if there is to be one.
        overwrite: what is at a root, and not this run's, may be replaced.

    Raises:
        ConfigError: it is something else, or has episodes of attempts that are not settled.
    """
    from mimicpipe.report.attempts import read_attempts

    known = read_attempts(attempts)
    places = [_Durable(path, overwrite) for path in (root, failed_root) if path is not None]
    rows = _settled_rows(known, places)
    for place in places:
        if len(place.base) == _count(place.base, rows):
            continue
        if has_base(place.root) or not overwrite:
            raise ConfigError(
                f"resume: {place.root} is not the dataset that {attempts} tells of, or has episodes behind an attempt "
                "that is missing there; move it away"
            )
        place.forget_base()  # it is another run's, and about to be replaced
    rows = _settled_rows(known, places)
    kept = [_count(place.episodes, rows) for place in places]
    return Settled(rows, sum(bool(row["success"]) for row in rows), kept[1] if len(kept) > 1 else 0)


Episodes = dict[int, tuple[int, int]]
"""{attempt: (index, seed)}."""


class _Durable:
    """What an interrupted run has made durable for one root.

    Attributes:
        root: the dataset's root.
        base: episodes of the dataset that it has published.
        episodes: those, and the ones in its logs.
    """

    def __init__(self, root: Path, overwrite: bool) -> None:
        put_back(root)
        self.root = root
        staged = StagedRun(staged_logs(staging_path(root)))
        self.base: Episodes = {}
        if has_base(root) or (len(staged) == 0 and root.exists()):
            self.base = _published(root, overwrite)
        by_attempt = staged.header is not None and staged.header.get("order") == BY_ATTEMPT
        self.episodes = self.base | {
            # Of several workers' episodes only the order is known; it is the dataset's as far as none is missing.
            meta["attempt"]: (len(self.base) + place if by_attempt else meta["index"], meta["seed"])
            for place, meta in enumerate(staged.metas)
        }

    def forget_base(self) -> None:
        """The dataset does not count."""
        self.episodes = {attempt: found for attempt, found in self.episodes.items() if attempt not in self.base}
        self.base = {}


def _published(root: Path, overwrite: bool) -> Episodes:
    try:
        from mimicpipe.recorders.open_finished import open_finished  # and with it torch

        metas = open_finished(root).metas
    except ConfigError as error:
        if overwrite:
            return {}
        raise ConfigError(f"resume: {error}") from None
    return {meta["attempt"]: (meta["index"], meta["seed"]) for meta in metas}


def _count(episodes: Episodes, rows: Sequence[Row]) -> int:
    """How many of the episodes are of the first attempts, whose rows these are."""
    return sum(attempt < len(rows) for attempt in episodes)


def _settled_rows(known: dict[int, Row], places: Sequence[_Durable]) -> list[Row]:
    """Rows of attempts 0, 1, ... as far as their episodes are in the right one of `places`."""
    demos, failed = places[0].episodes, places[1].episodes if len(places) > 1 else None
    rows: list[Row] = []
    while (row := known.get(len(rows))) is not None:
        attempt, seed = len(rows), row["seed"]
        if row["success"] and demos.get(attempt) != (row["episode_index"], seed):
            break
        recorded = is_recorded_failure(row["success"], row["length"], row["reason"])
        if failed is not None and recorded and failed.get(attempt, (0, None))[1] != seed:
            break
        rows.append(row)
    return rows


def is_recorded_failure(success: bool, length: int, reason: str) -> bool:
    """Whether an attempt has an episode in the dataset of failed attempts, where there is one."""
    return not success and length > 0 and reason != "nonfinite"
