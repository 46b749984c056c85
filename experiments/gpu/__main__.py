"""Entry point: `python -m experiments.gpu`, from the root, on a machine with a GPU; see README.md beside this file."""

import argparse
import json
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from experiments.gpu.report import render
from experiments.harness import describe_machine, results_folder, write_text
from mimicpipe.envs.mujoco_warp.extra import check_installed
from mimicpipe.errors import ConfigError

SIZES = (64, 256, 1024, 4096, 8192)
SMOKE_SIZES = (1, 2)


def main(argv: Sequence[str] | None = None) -> int:
    """Check against the CPU, measure, and write the tables after each size."""
    parser = argparse.ArgumentParser(prog="python -m experiments.gpu", description="Measure env=mujoco_warp on a GPU.")
    parser.add_argument("num_envs", nargs="*", type=int, help=f"sizes to measure (default: {SIZES})")
    parser.add_argument("--device", help="where (default: cuda:0; without a GPU nothing is measured)")
    parser.add_argument(
        "--smoke", action="store_true", help="a toy size on the CPU, to see whether it runs; into outputs/smoke/"
    )
    parser.add_argument("--unmeasured", action="store_true", help="write the tables as they are without a GPU")
    parser.add_argument("--out", type=Path, help="folder for the results (default: results/ here)")
    args = parser.parse_args(argv)
    out = results_folder("gpu", args.out, smoke=args.smoke)
    if args.unmeasured:
        _write(out, {"gpu": None}, SIZES)
        return 0
    device = "cpu" if args.smoke else args.device or "cuda:0"
    try:
        check_installed()
        if device != "cpu" and not torch.cuda.is_available():
            raise ConfigError(f"device {device}: torch sees no GPU here; --smoke runs a toy size on the CPU")
    except ConfigError as error:
        # Among all experiments, a machine without a GPU is no failure; where one was asked for, it is.
        print(f"{'error' if args.device else 'not measured'}: {error}", file=sys.stderr)
        return 2 if args.device else 0
    return _measure(out, device, tuple(args.num_envs) or (SMOKE_SIZES if args.smoke else SIZES), smoke=args.smoke)


def _measure(out: Path, device: str, sizes: tuple[int, ...], *, smoke: bool) -> int:
    from experiments.gpu import agreement, cells

    name = None if device == "cpu" else torch.cuda.get_device_name(device)
    machine = describe_machine()
    machine["versions"] |= {package: version(package) for package in ("mujoco-warp", "warp-lang")}
    results: dict[str, Any] = {"gpu": name, "machine": machine, "speed": []}
    print(f"agreement on {device}", file=sys.stderr, flush=True)
    results["agreement"] = agreement.measure(device, 2 if smoke else 64)
    _write(out, results, sizes)
    for num_envs in sizes:
        print(f"{num_envs} envs on {device}", file=sys.stderr, flush=True)
        size = cells.Size(num_envs, 1, 1) if smoke else cells.Size(num_envs)
        results["speed"] += cells.measure([size], device)
        _write(out, results, sizes)
    return 0


def _write(out: Path, results: dict[str, Any], sizes: tuple[int, ...]) -> None:
    text = render(results, sizes)
    write_text(out / "gpu.json", json.dumps(results, indent=1) + "\n")
    write_text(out / "gpu.md", text)
    print(text)


if __name__ == "__main__":
    sys.exit(main())
