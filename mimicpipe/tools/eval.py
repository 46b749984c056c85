"""Play a policy in fresh scenes: `python -m mimicpipe.tools.eval CHECKPOINT [--episodes N] [KEY=VALUE ...]`.

CHECKPOINT is a folder of `python -m mimicpipe.tools.train`, or one that LeRobot's training has written (with --run).
All slots act in one call of the policy per step. An episode is a success once the task's condition has held for
`task.hold_steps` steps, which end it. Episode k's scene is drawn from (--seed, k); a seed that the data were generated
with is refused. With `bc` the episodes are the same at every env.num_envs.
"""

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mimicpipe.tools.exits import exit_code, tool_parser

if TYPE_CHECKING:
    from mimicpipe.training.playing import Playable
    from mimicpipe.training.rollouts import Evaluation

REPORT = "eval.json"
_KEYS = ("env.num_envs", "env.threads", "env.device", "task.variant")


def play(args: argparse.Namespace, keys: dict[str, str]) -> dict[str, Any]:
    """Load the policy, play it, and say what came of it, as `eval.json` has it.

    Raises:
        ConfigError: no policy, one for another simulator, or scenes that it has seen.
    """
    import torch

    from mimicpipe.training.playing import load, simulator_of
    from mimicpipe.training.rollouts import EvalSettings, build_env, check_fresh, eval_config, evaluate

    torch.set_num_threads(args.threads)
    run_config = simulator_of(args.checkpoint, args.run)
    found = load(args.checkpoint, args.device)
    settings = EvalSettings(args.episodes, args.max_steps, args.seed)
    seeds = () if found.notes is None else found.notes.dataset["attempt_seeds"]
    run_seeds = [run_config.seed] if found.notes is None else found.notes.dataset["run_seeds"]
    check_fresh(settings, run_seeds, seeds)
    config = eval_config(run_config, keys, found.cameras)
    env = build_env(config)
    try:
        found.check(env)
        played = evaluate(env, found.policy, config.task["hold_steps"], settings)
    finally:
        env.close()
    return _report(args.checkpoint, found, config.task, config.env, played)


def _report(
    checkpoint: Path, found: "Playable", task: dict[str, Any], env: dict[str, Any], played: "Evaluation"
) -> dict[str, Any]:
    from mimicpipe.report.summary import machine, versions

    return {
        "checkpoint": str(checkpoint),
        "policy": found.name,
        "task": task["name"],
        "variant": task["variant"],
        "trained_on": None if found.notes is None else found.notes.dataset["episodes"],
        "num_envs": env["num_envs"],
        "hold_steps": task["hold_steps"],
        **played.summary(),
        "machine": machine(),
        "versions": versions(),
    }


def line(report: dict[str, Any]) -> str:
    """The report as a row of a Markdown table."""
    low, high = (f"{100 * bound:.1f}" for bound in report["wilson_95"])
    reasons = ", ".join(f"{count} {name}" for name, count in report["reasons"].items() if name != "success")
    demos = "?" if report["trained_on"] is None else f"{report['trained_on']:,}"
    cells = (
        f"{report['task']} {report['variant']}", report["policy"], f"{demos} demos",
        f"{report['successes']} of {report['episodes']}", f"{100 * report['success_rate']:.1f} %",
        f"{low} to {high} %", reasons or "no failure",
    )  # fmt: skip
    return f"| {' | '.join(cells)} |"


def _write(path: Path, report: dict[str, Any]) -> None:
    growing = path.with_name(f".{path.name}.{os.getpid()}.new")
    growing.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    os.replace(growing, path)


def _keys(words: Sequence[str], parser: argparse.ArgumentParser) -> dict[str, str]:
    keys = dict(word.split("=", 1) for word in words if "=" in word)
    wrong = [word for word in words if word.split("=")[0] not in _KEYS or "=" not in word]
    if wrong:
        parser.error(f"{wrong[0]}: expected one of {', '.join(f'{key}=...' for key in _KEYS)}")
    return keys


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point; the exit code."""
    parser = tool_parser("eval", __doc__)
    parser.add_argument(
        "checkpoint", metavar="CHECKPOINT", type=Path, help="folder of a policy (of LeRobot's: pretrained_model)"
    )
    parser.add_argument(
        "key",
        metavar="KEY=VALUE",
        nargs="*",
        help=f"{', '.join(f'{key}=...' for key in _KEYS)}; else as the dataset's run",
    )
    parser.add_argument("--episodes", type=int, default=100, metavar="N", help="scenes to play (default: 100)")
    parser.add_argument("--seed", type=int, default=1_000_000, metavar="N", help="of the scenes (default: 1000000)")
    parser.add_argument(
        "--max-steps", type=int, default=400, metavar="N", help="control steps of an episode (default: 400)"
    )
    parser.add_argument(
        "--run",
        type=Path,
        metavar="FOLDER",
        help="run whose simulator to play in (default: the one whose data it learned from)",
    )
    parser.add_argument("--out", type=Path, metavar="FILE", help=f"file for the report (default: CHECKPOINT/{REPORT})")
    parser.add_argument("--device", default="cpu", help="of LeRobot's policies: cpu or cuda:0 (default: cpu)")
    parser.add_argument("--threads", type=int, default=1, metavar="N", help="threads of torch (default: 1)")
    args = parser.parse_intermixed_args(argv)
    keys = _keys(args.key, parser)
    for name in ("episodes", "max_steps", "threads"):
        if getattr(args, name) < 1:
            parser.error(f"--{name.replace('_', '-')} {getattr(args, name)}: must be 1 or more")
    args.checkpoint = args.checkpoint.expanduser().resolve()

    def work() -> None:
        report = play(args, keys)
        _write(args.out or args.checkpoint / REPORT, report)
        print(line(report))

    return exit_code(work)


if __name__ == "__main__":
    sys.exit(main())
