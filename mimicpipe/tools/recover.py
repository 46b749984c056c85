"""Make a dataset of what a killed run has made durable: `python -m mimicpipe.tools.recover RUN`.

RUN is the run's output folder, or the root of its dataset where that is somewhere else. In an output folder,
attempts.jsonl is completed, and run.json is written.
"""

import argparse
import json
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mimicpipe.errors import MimicpipeError, RecorderError
from mimicpipe.preflight import FAILED_SUFFIX
from mimicpipe.recorders.joining import Recovered, find_staged, recover
from mimicpipe.report.attempts import Row, read_attempts, write_attempts
from mimicpipe.report.summary import write_json


def complete_report(folder: Path, recovered: Recovered) -> None:
    """Bring attempts.jsonl and run.json of a run's output folder up to date with a dataset that was recovered.

    Args:
        folder: the output folder.
        recovered: the dataset; that of failed attempts has no episode indices.
    """
    path = folder / "attempts.jsonl"
    failed = recovered.root.name.endswith(FAILED_SUFFIX)
    rows = read_attempts(path)
    for index, episode in enumerate(recovered.episodes):
        rows[episode["attempt"]] = _row(episode, None if failed else index)
    write_attempts(path, rows)
    run = folder / "run.json"
    record: dict[str, Any] = {"exit_reason": "killed"}
    if run.is_file():
        record = json.loads(run.read_text(encoding="utf-8"))
    successes = sum(row["success"] for row in rows.values())
    episodes = [row for row in rows.values() if row["episode_index"] is not None]
    record["counts"] = {
        "attempts": len(rows),
        "successes": successes,
        "failures": len(rows) - successes,
        "episodes": len(episodes),
        "frames": sum(row["length"] for row in episodes),
    }
    record["reasons"] = dict(Counter(row["reason"] for row in rows.values()))
    record["failed_dataset" if failed else "dataset"] = {"root": str(recovered.root)}
    write_json(run, record)


def _row(episode: Mapping[str, Any], index: int | None) -> Row:
    keys = ("attempt", "slot", "seed", "success", "reason", "length")
    plain = {key: episode[key] for key in keys}
    return {**plain, "source_demos": json.loads(episode["source_demos"]), "episode_index": index}


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point; the exit code."""
    parser = argparse.ArgumentParser(prog="recover", description="Make a dataset of a killed run's durable episodes.")
    parser.add_argument("run", type=Path, help="the run's output folder, or the root of its dataset")
    parser.add_argument("--overwrite", action="store_true", help="replace a dataset that is there")
    args = parser.parse_args(argv)
    try:
        folder = args.run.resolve()
        for root in find_staged(folder):
            recovered = recover(root, args.overwrite)
            if recovered is None:
                print(f"{root}: no episode had been made durable")
                continue
            print(f"{root}: {len(recovered.episodes)} episodes")
            if (folder / "attempts.jsonl").is_file():
                complete_report(folder, recovered)
    except (MimicpipeError, RecorderError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2 if isinstance(error, MimicpipeError) else 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
