"""Make a dataset of what a killed run has made durable: `python -m mimicpipe.tools.recover RUN`.

RUN is the run's output folder, or the root of its dataset where that is somewhere else. In an output folder,
attempts.jsonl is completed, and run.json, report.html and preview.gif are written.
"""

import json
import signal
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mimicpipe.errors import ConfigError
from mimicpipe.preflight import FAILED_SUFFIX
from mimicpipe.recorders.joining import Recovered, find_staged, recover
from mimicpipe.report.attempts import Row, read_attempts, write_attempts
from mimicpipe.report.bottleneck import find_bottleneck
from mimicpipe.report.format import near
from mimicpipe.report.page import write_run_page
from mimicpipe.report.summary import write_json
from mimicpipe.tools.exits import exit_code, tool_parser
from mimicpipe.tools.report import play_again
from mimicpipe.tools.saved_run import saved_config
from mimicpipe.tools.status import last_row


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
        if episode["slot"] is None and (known := rows.get(episode["attempt"])) is not None:
            episode = {**episode, "slot": known["slot"]}  # the dataset does not say it
        rows[episode["attempt"]] = _row(episode, None if failed else index)
    write_attempts(path, rows)
    run = folder / "run.json"
    record: dict[str, Any] = killed_record(folder)
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


def killed_record(folder: Path) -> dict[str, Any]:
    """What run.json says of a run that was killed: its config, and its figures as metrics.jsonl has them last."""
    record: dict[str, Any] = {"exit_reason": "killed", "exit_code": 128 + signal.SIGKILL}
    try:
        config = saved_config(folder)
    except ConfigError as error:
        print(f"{folder}: without its config: {error}", file=sys.stderr)
    else:
        record |= {"config_hash": config.hash(), "seed": config.seed, "config": config.to_dict()}
    return record | last_figures(folder / "metrics.jsonl")


def last_figures(path: Path) -> dict[str, Any]:
    """`wall_s`, `rates`, `stage_s`, `recorder` and the bottleneck of the last whole row of a metrics.jsonl."""
    last = last_row(path)
    if not last:
        return {}
    found = find_bottleneck(last)
    return {
        "wall_s": last.get("wall_s", 0.0),
        "rates": {name[11:]: value for name, value in last.items() if name.startswith("throughput/")},
        "stage_s": {name[5:-2]: value for name, value in last.items() if name.startswith("time/")},
        "recorder": {name[9:]: value for name, value in last.items() if name.startswith("recorder/")},
        "bottleneck": found.stage if found else None,
        "bottleneck_proof": found.as_dict() if found else None,
    }


def write_report(folder: Path) -> None:
    """Write report.html and preview.gif; what goes wrong is said in one line, for the dataset is there."""
    try:
        play_again(folder)
    except Exception as error:  # noqa: BLE001 - the simulator may not be at hand where a dataset is recovered
        print(f"report.html is without pictures: {type(error).__name__}: {error}", file=sys.stderr)
    print(near(write_run_page(folder)))


def _row(episode: Mapping[str, Any], index: int | None) -> Row:
    keys = ("attempt", "slot", "seed", "success", "reason", "length")
    plain = {key: episode[key] for key in keys}
    return {**plain, "source_demos": json.loads(episode["source_demos"]), "episode_index": index}


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point; the exit code."""
    parser = tool_parser("recover", __doc__)
    parser.add_argument("run", metavar="RUN", type=Path, help="the run's output folder, or the root of its dataset")
    parser.add_argument("--overwrite", action="store_true", help="replace a dataset that is there")
    args = parser.parse_args(argv)

    def work() -> None:
        folder, is_run = args.run.resolve(), (args.run / "attempts.jsonl").is_file()
        for root in find_staged(folder):
            recovered = recover(root, args.overwrite)
            if recovered is None:
                print(f"{root}: no episode had been made durable")
                continue
            print(f"{root}: {len(recovered.episodes)} episodes")
            if is_run:
                complete_report(folder, recovered)
        if is_run:
            write_report(folder)

    return exit_code(work)


if __name__ == "__main__":
    sys.exit(main())
