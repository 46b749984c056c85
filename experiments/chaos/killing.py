"""Victims that are killed, gone on with, and killed again, until they end; then what is left is compared."""

import json
import multiprocessing
import random
import shutil
import signal
import sys
import time
from dataclasses import dataclass, field
from multiprocessing.context import ForkServerContext, SpawnContext
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from experiments.chaos import victim
from experiments.chaos.moments import Moment, draw, end_at, measure, phase
from mimicpipe.recorders.continued import ContinuedRun
from mimicpipe.recorders.digest import digest
from mimicpipe.recorders.episode_rows import read_episode_metadata
from mimicpipe.recorders.staging_area import is_published, owner_of, staging_path
from mimicpipe.report.attempts import read_attempts
from mimicpipe.tools import recover

MOST_KILLS = 10
"""Of one run; the next time it is left alone, so that every run ends."""
_FRESH = 10
"""Every so many victims one starts as `python run.py` does, so that kills fall into imports, too."""


@dataclass
class Runs:
    """Whole runs of run.py, in folders `run0`, `run1`, ...; every other one has writer processes."""

    what: str
    overrides: tuple[str, ...]
    demos: int
    takes_signals = True

    def log(self, folder: Path) -> Path:
        """What its victims print."""
        return folder.with_suffix(".log")

    def root(self, folder: Path) -> Path:
        """Of the dataset."""
        return folder / "dataset"

    def target(self, folder: Path, number: int) -> tuple[Any, tuple[Any, ...]]:
        """Function and arguments of the next victim: a new run, or one that goes on."""
        recorder = "sharded" if number % 2 else "async"
        budget = [f"num_demos={self.demos}", "tracker=none", "preview=false"]
        arguments = [*self.overrides, *budget, f"recorder={recorder}", f"hydra.run.dir={folder}"]
        saved = folder / ".hydra"
        if (saved / "overrides.yaml").is_file() and (saved / "config.yaml").is_file():
            arguments = [f"resume={folder}"]
        return victim.run, (arguments, str(self.log(folder)))

    def reported(self, folder: Path) -> set[int]:
        """Attempts whose episodes the run has called durable."""
        rows = read_attempts(folder / "attempts.jsonl")
        return {attempt for attempt, row in rows.items() if row["success"]}


@dataclass
class Recorders:
    """Recorders with two cameras as video, with the writer in a thread and in one and two processes."""

    what: str
    demos: int
    takes_signals = False

    def log(self, folder: Path) -> Path:
        """What its victims print."""
        return folder / "log"

    def root(self, folder: Path) -> Path:
        """Of the dataset."""
        return folder / "dataset"

    def target(self, folder: Path, number: int) -> tuple[Any, tuple[Any, ...]]:
        """As `Runs.target`."""
        folder.mkdir(exist_ok=True)
        return victim.record, (str(self.root(folder)), self.demos, number % 3, str(self.log(folder)))

    def reported(self, folder: Path) -> set[int]:
        """As `Runs.reported`."""
        log = self.log(folder)
        lines = log.read_text().splitlines(keepends=True) if log.exists() else []
        return {int(line) for line in lines if line.endswith("\n") and line.strip().isdigit()}


@dataclass
class Tally:
    """What has happened to the victims of a kind."""

    what: str
    kills: int = 0
    signals: int = 0
    phases: dict[str, int] = field(default_factory=dict)
    """Kills by what the victim was doing."""
    ended: int = 0
    reported: int = 0
    lost: int = 0
    unreadable: int = 0
    different: int = 0


class Killer:
    """Ends victims at random moments.

    Args:
        chance: the moments.
        folder: an empty one, for everything.
    """

    def __init__(self, chance: random.Random, folder: Path) -> None:
        self._chance = chance
        self._folder = folder
        self._forks: ForkServerContext = multiprocessing.get_context("forkserver")
        self._forks.set_forkserver_preload(list(victim.PRELOAD))
        self._fresh: SpawnContext = multiprocessing.get_context("spawn")
        self._started = 0

    def kill(self, kind: Runs | Recorders, kills: int) -> Tally:
        """Kill victims of a kind so many times."""
        expected = self._folder / "whole"
        spans = measure(lambda: self._start(kind, expected, 0), kind.root(expected))
        wanted = digest(kind.root(expected))
        tally = Tally(kind.what)
        number = 0
        while tally.kills < kills:
            folder = self._folder / f"run{number}"
            before, reported = tally.kills, set()
            while not _is_complete(kind.root(folder), kind.demos):
                moment = draw(self._chance, spans, kind.takes_signals)
                if tally.kills - before == MOST_KILLS:
                    moment = Moment("starting", 600.0)
                reported |= self._once(kind, folder, number, moment, tally)
            tally.reported += len(reported)
            _compare(tally, kind.root(folder), wanted)
            print(tally, file=sys.stderr, flush=True)
            shutil.rmtree(folder)
            number += 1
        shutil.rmtree(expected)
        return tally

    def _once(self, kind: Runs | Recorders, folder: Path, number: int, moment: Moment, tally: Tally) -> set[int]:
        """Start a victim, end it at a moment, and look at what is left; the episodes that it has reported."""
        root = kind.root(folder)
        process = self._start(kind, folder, number)
        cut_short = end_at(process, root, moment)
        if process.exitcode not in (0, -signal.SIGKILL, -signal.SIGTERM, 128 + signal.SIGTERM):
            text = kind.log(folder).read_text()[-3000:]
            raise RuntimeError(f"{folder}: ended with exit code {process.exitcode}\n{text}")
        while owner_of(staging_path(root)) is not None:
            time.sleep(0.01)  # a writer process ends what it is encoding, and then notices that its run is gone
        if cut_short and moment.signal == signal.SIGKILL:
            tally.kills += 1
            doing = phase(root)
            tally.phases[doing] = tally.phases.get(doing, 0) + 1
        tally.signals += cut_short and moment.signal == signal.SIGTERM
        reported = kind.reported(folder)
        if staging_path(root).is_dir() and is_published(root):
            recover.main([str(folder)])
        tally.lost += len(reported - _durable(root))
        return reported

    def _start(self, kind: Runs | Recorders, folder: Path, number: int) -> BaseProcess:
        self._started += 1
        function, arguments = kind.target(folder, number)
        context = self._fresh if self._started % _FRESH == 0 else self._forks
        process = context.Process(target=function, args=arguments)
        process.start()
        return process


def _is_complete(root: Path, demos: int) -> bool:
    """Whether the dataset is published, and has all its episodes."""
    info = root / "meta" / "info.json"
    return info.is_file() and json.loads(info.read_text())["total_episodes"] == demos


def _durable(root: Path) -> set[int]:
    """Attempts of the episodes that are staged beside a root, or in the dataset there."""
    found = {meta["attempt"] for meta in ContinuedRun(root).metas}
    return found | ({row["attempt"] for row in read_episode_metadata(root)} if root.exists() else set())


def _compare(tally: Tally, root: Path, wanted: str) -> None:
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    tally.ended += 1
    try:
        dataset = LeRobotDataset("local/chaos", root=root, video_backend="pyav")
        dataset[len(dataset) - 1]
    except Exception as error:  # noqa: BLE001 - counted, and shown
        print(f"{root}: {error!r}", file=sys.stderr)
        tally.unreadable += 1
        return
    tally.different += digest(root) != wanted
