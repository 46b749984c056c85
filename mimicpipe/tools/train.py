"""Train a policy on a dataset: `python -m mimicpipe.tools.train DATASET [--policy bc|act|diffusion] [--out FOLDER]`.

`bc` is a small state-only policy that learns in minutes on a CPU: on one thread, the same data, seed and settings give
the same weights, bit for bit. `act` and `diffusion` are LeRobot's, trained by `lerobot_train` (extra `train`); what
stands behind `--` goes to it as it is. Whether a policy is good for anything, `python -m mimicpipe.tools.eval` says.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import asdict, fields, replace
from pathlib import Path

from mimicpipe.errors import ConfigError
from mimicpipe.tools.exits import exit_code
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
    parser = argparse.ArgumentParser(
        prog="train",
        description="Train a policy on a LeRobot dataset of a run.",
        epilog="Options of lerobot_train stand behind --, e.g. -- --policy.chunk_size=50. Exit code: 0, 2 for a wrong "
        "argument, 1 for training that failed, 130 for Ctrl-C.",
    )
    parser.add_argument("dataset", type=Path, help="folder of a dataset")
    parser.add_argument("--policy", choices=POLICIES, default="bc", help="which (default: bc)")
    parser.add_argument("--out", type=Path, help="folder of the checkpoint, not there yet (default: DATASET-POLICY)")
    parser.add_argument("--run", type=Path, help="output folder of the run that made the dataset, if it lies elsewhere")
    parser.add_argument("--episodes", type=int, help="learn from the first so many (default: all)")
    parser.add_argument("--seed", type=int, default=0, help="of first weights and order of the data (default: 0)")
    parser.add_argument("--steps", type=int, help="gradient steps (default: bc 6000, else 5000)")
    parser.add_argument("--batch", type=int, help=f"frames a step (default: bc 128, else {_BATCH})")
    parser.add_argument("--threads", type=int, default=1, help="bc: of torch; more than one is not exact (default: 1)")
    parser.add_argument("--hidden", type=int, help="bc: width of the hidden layers (default: 256)")
    parser.add_argument("--chunk", type=int, help="bc: actions that are predicted at once")
    parser.add_argument("--executed", type=int, help="bc: how many of them are played")
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
