"""Train a policy on a dataset: `python -m mimicpipe.tools.train DATASET [--policy bc|act|diffusion] [--out FOLDER]`.

`bc` is a small state-only policy that learns in minutes on a CPU: on one thread, the same data, seed and settings give
the same weights, bit for bit. `act` and `diffusion` are LeRobot's, trained by `lerobot_train` (extra `train`); what
stands behind `--` goes to it as it is, e.g. `-- --policy.chunk_size=50`. `python -m mimicpipe.tools.eval` plays it.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import asdict, fields, replace
from pathlib import Path

from mimicpipe.errors import ConfigError
from mimicpipe.tools.exits import exit_code, tool_parser
from mimicpipe.tools.saved_run import saved_config
from mimicpipe.tools.validate import find_run

POLICIES = ("bc", "act", "diffusion")
_BATCH = 64
"""Of LeRobot's training."""


def _train_bc(args: argparse.Namespace, dataset: Path, run: Path, out: Path) -> None:
    import torch

    from mimicpipe.training.checkpoint import notes_of, save_bc
    from mimicpipe.training.columns import load_demos
    from mimicpipe.training.fit import BcSettings, fit

    given = {f.name: getattr(args, f.name, None) for f in fields(BcSettings)}
    settings = replace(BcSettings(), **{name: value for name, value in given.items() if value is not None})
    demos = load_demos(dataset, args.episodes)
    torch.set_num_threads(args.threads)
    print(
        f"bc: {len(demos.lengths)} episodes, {int(demos.lengths.sum()):,} frames, {settings.steps:,} steps", flush=True
    )

    def progress(step: int, loss: float) -> None:
        if step * 10 // settings.steps > (step - settings.steps // 100) * 10 // settings.steps:
            print(f"  step {step:,}: loss {loss:.4f}", flush=True)

    fitted = fit(demos, [args.seed], settings, progress)
    training = {"settings": asdict(settings), "seed": args.seed, "losses": fitted.losses[0]}
    save_bc(out, fitted, 0, notes_of("bc", saved_config(run), demos, training))


def _train_lerobot(args: argparse.Namespace, dataset: Path, run: Path, out: Path) -> None:
    from mimicpipe.training.checkpoint import notes_of, write_notes
    from mimicpipe.training.columns import load_demos
    from mimicpipe.training.lerobot_training import LeRobotJob, check_installed, train

    check_installed(args.policy)
    config, demos = saved_config(run), load_demos(dataset, args.episodes)
    steps, batch = args.steps or 5000, args.batch or _BATCH
    job = LeRobotJob(
        args.policy, dataset, len(demos.lengths), out, steps, batch, args.seed, args.device,
        has_cameras=bool(config.env.get("cameras")),
    )  # fmt: skip
    train(job, args.lerobot)
    training = {"steps": steps, "batch": batch, "seed": args.seed, "lerobot": job.arguments(args.lerobot)}
    write_notes(out, notes_of(args.policy, config, demos, training))


def _parser() -> argparse.ArgumentParser:
    parser = tool_parser("train", __doc__)
    parser.add_argument("dataset", metavar="DATASET", type=Path, help="folder of a dataset that a run has made")
    parser.add_argument("--policy", choices=POLICIES, default="bc", help="which policy (default: bc)")
    parser.add_argument(
        "--out", type=Path, metavar="FOLDER", help="folder of the checkpoint; must not exist (default: DATASET-POLICY)"
    )
    parser.add_argument(
        "--run",
        type=Path,
        metavar="FOLDER",
        help="output folder of the run that made the dataset, where the dataset is not in it",
    )
    parser.add_argument("--episodes", type=int, metavar="N", help="learn from the first N episodes (default: all)")
    parser.add_argument(
        "--seed", type=int, default=0, metavar="N", help="of the first weights and the order of the data (default: 0)"
    )
    parser.add_argument("--steps", type=int, metavar="N", help="gradient steps (default: bc 6000, else 5000)")
    parser.add_argument(
        "--batch", type=int, metavar="N", help=f"frames per gradient step (default: bc 128, else {_BATCH})"
    )
    parser.add_argument(
        "--threads",
        type=int,
        default=1,
        metavar="N",
        help="bc: threads of torch; with more than one, weights differ from time to time (default: 1)",
    )
    parser.add_argument("--hidden", type=int, metavar="N", help="bc: width of the hidden layers (default: 256)")
    parser.add_argument("--chunk", type=int, metavar="N", help="bc: actions predicted at once (default: 8)")
    parser.add_argument("--executed", type=int, metavar="N", help="bc: how many of them are played (default: 8)")
    parser.add_argument("--device", default="cpu", help="act, diffusion: cpu or cuda:0 (default: cpu)")
    return parser


def _parsed(argv: Sequence[str] | None) -> argparse.Namespace:
    words = list(sys.argv[1:] if argv is None else argv)
    at = words.index("--") if "--" in words else len(words)
    parser = _parser()
    args = parser.parse_args(words[:at])
    args.lerobot = words[at + 1 :]
    if args.lerobot and args.policy == "bc":
        parser.error("what stands behind -- is for lerobot_train, which --policy bc does not use")
    for name in ("episodes", "steps", "batch", "threads", "hidden", "chunk", "executed"):
        value = getattr(args, name)
        if value is not None and value < 1:
            parser.error(f"--{name} {value}: must be 1 or more")
    return args


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point; the exit code."""
    args = _parsed(argv)
    dataset = args.dataset.expanduser().resolve()
    if (dataset / ".hydra").is_dir() and (dataset / "dataset").is_dir():
        dataset /= "dataset"  # of the run whose output folder was named
    out = (args.out or dataset.with_name(f"{dataset.name}-{args.policy}")).expanduser().resolve()

    def work() -> None:
        run = args.run or find_run(dataset)
        if run is None:
            raise ConfigError(f"{dataset}: lies in no run's output folder; name the run that made it with --run")
        if out.exists():
            raise ConfigError(f"--out {out}: is there already; remove it, or name another folder")
        train = _train_bc if args.policy == "bc" else _train_lerobot
        train(args, dataset, run.expanduser().resolve(), out)
        print(f"checkpoint  {out}\nplay it     python -m mimicpipe.tools.eval {out}")

    return exit_code(work)


if __name__ == "__main__":
    sys.exit(main())
