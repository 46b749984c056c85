"""Makes datasets of what is there: of a killed run's durable episodes, or of other datasets."""

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mimicpipe.errors import ConfigError
from mimicpipe.recorders.assembly import assemble
from mimicpipe.recorders.continued import ContinuedRun
from mimicpipe.recorders.finished import FinishedDataset, Pixels
from mimicpipe.recorders.layout import CONVERSION
from mimicpipe.recorders.open_finished import Finished, open_finished
from mimicpipe.recorders.staged import StagedEpisode, StagedRun
from mimicpipe.recorders.staging import check_root
from mimicpipe.recorders.staging_area import StagingArea, has_base, put_back, staged_logs, staging_path

_MUST_AGREE = ("fps", "robot_type", "features", "use_videos", "video")


@dataclass(frozen=True)
class Recovered:
    """What has become of a killed run."""

    root: Path
    episodes: list[Mapping[str, Any]]
    """`attempt`, `slot`, `length` and so on of each episode, in the order of the dataset; `slot` is None where only
    attempts.jsonl knows it."""

    @property
    def attempts(self) -> list[int]:
        """Attempt of each episode."""
        return [episode["attempt"] for episode in self.episodes]


def recover(root: Path, overwrite: bool = False) -> Recovered | None:
    """Make the dataset at `root` of everything that is durable beside it, and remove the staging folder.

    May be interrupted, and called again. If nothing is durable, the staging folder is removed, and the answer is None.

    Args:
        root: root of the dataset that was being written.
        overwrite: replace a dataset that is there.

    Raises:
        ConfigError: there is nothing to recover, or something at the root.
        RecorderError: a run is still writing it, or logs that don't belong together.
        OSError: the disk is full, or fails.
    """
    if not staging_path(root).is_dir():
        raise ConfigError(f"{root}: nothing to recover, {staging_path(root).name} is not beside it")
    area = StagingArea(root, clear=False)
    try:
        staged = StagedRun(staged_logs(area.folder))
        header = staged.header
        if header is not None and header.get("layout") == CONVERSION:
            raise ConfigError(f"{root}: a conversion to HDF5 was interrupted; give its command again, it goes on")
        if not area.is_assembled:
            if len(staged) == 0 or header is None:
                area.discard()
                return None
            if root.exists() and not (overwrite or has_base(root)):
                raise ConfigError(f"{root}: exists; replace it with --overwrite, or move it away")
            put_back(root)
            run = ContinuedRun(root)
            assemble(area.begin_assembly(), header, run, run.pixels)
        area.publish(overwrite)
    finally:
        area.leave()
    slots = {meta["attempt"]: meta["slot"] for meta in staged.metas}
    return Recovered(root, [{**meta, "slot": slots.get(meta["attempt"])} for meta in open_finished(root).metas])


def merge(root: Path, sources: Sequence[Path], overwrite: bool = False) -> int:
    """Write one dataset of several, whose episodes follow each other as given; nothing is encoded again.

    Args:
        root: folder of the new dataset.
        sources: folders of datasets that mimicpipe recorders have written.
        overwrite: replace a dataset at `root`, which must not be among the sources.

    Returns:
        The number of episodes.

    Raises:
        ConfigError: a source is no such dataset or damaged, they don't have the same features, rate and video settings,
            or `root` lies in one.
        OSError: the disk is full, or fails.
    """
    root = check_root(root, overwrite)
    datasets = [open_finished(source) for source in sources]
    if not datasets:
        raise ConfigError("merge: name at least one dataset")
    if root in [source.resolve() for source in sources]:
        raise ConfigError(f"{root}: is one of the datasets to merge; choose another folder")
    if inside := [source for source in sources if source.resolve() in root.parents]:
        raise ConfigError(f"{root}: lies in {inside[0]}, one of the datasets to merge; choose another folder")
    first = datasets[0]
    for dataset in datasets[1:]:
        for key in _MUST_AGREE:
            if dataset.header[key] != first.header[key]:
                differs = _difference(dataset.header[key], first.header[key])
                raise ConfigError(f"{dataset.root}: {key} is not that of {first.root}: {differs}")
    for dataset in datasets:
        if isinstance(dataset, FinishedDataset):
            with _readable(dataset.root):
                dataset.check_counts()
    header = {**first.header, "run_info": {"merged": [dataset.header["run_info"] for dataset in datasets]}}
    area = StagingArea(root, clear=overwrite)
    try:
        count = assemble(area.begin_assembly(), header, _all_episodes(datasets), _all_pixels(datasets))
        area.publish(overwrite)
    except BaseException:
        area.discard()
        raise
    return count


def _difference(here: Any, there: Any) -> str:
    """The first thing, by name, that two datasets say differently."""
    if not isinstance(here, Mapping) or not isinstance(there, Mapping):
        return f"{here}, and {there} there"
    name = next(name for name in sorted({*here, *there}) if here.get(name) != there.get(name))
    lacks = next((where for where, values in (("here", here), ("there", there)) if name not in values), None)
    if lacks is not None:
        return f"{name} is missing {lacks}"
    return f"{name}: {_difference(here[name], there[name])}"


def find_staged(run: Path) -> list[Path]:
    """Roots of the datasets of which something is staged, given a run's output folder or a dataset's root.

    Raises:
        ConfigError: none.
    """
    if staging_path(run).is_dir():
        return [run]
    found = [
        folder.parent / folder.name[1:].removesuffix(".staging")
        for folder in sorted(run.glob(".*.staging"))
        if folder.is_dir()
    ]
    if not found and (run / ".hydra").is_dir():
        raise ConfigError(f"{run}: nothing to recover: this run has left nothing that is not in its dataset")
    if not found:
        raise ConfigError(f"{run}: nothing to recover; name a run's output folder, or the root of its dataset")
    return found


def _all_episodes(datasets: Sequence[Finished]) -> Iterator[StagedEpisode]:
    for dataset in datasets:
        episodes = iter(dataset)
        while True:
            with _readable(dataset.root):
                episode = next(episodes, None)
            if episode is None:
                break
            yield episode


@contextmanager
def _readable(root: Path) -> Generator[None]:
    """What a damaged dataset raises becomes one line."""
    try:
        yield
    except ConfigError:
        raise
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        reason = " ".join(str(error).split())
        raise ConfigError(f"{root}: cannot be read ({reason}); copy the dataset again") from error


def _all_pixels(datasets: Sequence[Finished]) -> dict[str, Pixels] | None:
    """Sums over the datasets; None where one of them does not say."""
    total: dict[str, Any] = {}
    for dataset in datasets:
        if dataset.pixels is None:
            return None
        for name, (counts, frames) in dataset.pixels.items():
            before, seen = total.get(name, (np.zeros_like(counts), 0))
            total[name] = before + counts, seen + frames
    return total
