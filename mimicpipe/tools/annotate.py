"""Annotate demos for generation: `python -m mimicpipe.tools.annotate DEMOS [task=... env=...] --out FILE`.

DEMOS is an HDF5 file or a LeRobot dataset. Where subtasks end and skills begin is found by playing each demo in the env
and asking the task; with --rules by the gripper and the distance to the subtask's object, where a demo cannot be played
or the task has no signals; with --hand on a page of this machine (127.0.0.1 only), with Isaac Lab's keys: N plays, and
at the end goes on, B pauses, S marks. A demo that cannot be used is named with the reason. Takes run.py's keys of task,
env and allowed_targets.
"""

import argparse
import os
import signal
import sys
import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from mimicpipe.cli import check_command_line
from mimicpipe.config import RunConfig
from mimicpipe.errors import ConfigError, SourceDemoError
from mimicpipe.tools.exits import exit_code, tool_parser

if TYPE_CHECKING:
    from mimicpipe.annotate.candidates import Candidate
    from mimicpipe.annotate.rules import Rules
    from mimicpipe.datagen.subtask import SubtaskConfigs
    from mimicpipe.envs.base import MimicEnv

CONFIG_DIR = Path(__file__).resolve().parents[2] / "conf"
_KEYS = ("task", "env", "allowed_targets")
_FIXED = ("env.num_envs=1", "pool=scripted", "recorder=none", "tracker=none", "preview=false")
_GYM_TYPE = 2
"""robomimic's EnvType of a gym environment."""
_LAST_ANSWER_S = 0.3
"""What the answer to the last demo has to reach the page in."""
Rejected = list[tuple[str, str]]
"""(demo, reason)."""


def checked_config(overrides: Sequence[str]) -> RunConfig:
    """The config of a run's keys, as far as they concern the task and the env.

    Raises:
        ConfigError: one line, as run.py has them.
    """
    for override in overrides:
        key = override.lstrip("+~").partition("=")[0]
        if key.partition(".")[0] not in _KEYS or key == "env.num_envs":
            raise ConfigError(f"{override}: annotate takes keys of {', '.join(_KEYS)}, but for env.num_envs")
    (job,) = check_command_line([*_FIXED, *overrides], CONFIG_DIR)
    if job.config.env.get("cameras"):
        raise ConfigError(f"env.cameras={job.config.env['cameras']}: demos are kept without frames; leave the key out")
    return job.config


def by_task(
    candidates: Sequence["Candidate"], configs: "SubtaskConfigs", rules: "Rules | None"
) -> tuple[list["Candidate"], Rejected]:
    """Those that can be cut by their task's signals, or by rules; and why others cannot."""
    from mimicpipe.annotate.rules import apply_rules
    from mimicpipe.annotate.verdict import judge, keep_used

    accepted, rejected = [], []
    for candidate in candidates:
        demo = candidate.demo
        try:
            if rules is not None:
                apply_rules(demo.info, configs, rules, demo.name)
            elif candidate.states is None:
                raise SourceDemoError(
                    f"{demo.name}: {candidate.unplayed}, so the task cannot look at it; use --rules or --hand"
                )
        except SourceDemoError as error:
            rejected.append((demo.name, str(error).removeprefix(f"{demo.name}: ")))
            continue
        fault = judge(demo, configs)
        if fault is not None:
            rejected.append((demo.name, fault))
        else:
            keep_used(demo, configs)
            accepted.append(candidate)
    return accepted, rejected


def by_hand(
    env: "MimicEnv", candidates: Sequence["Candidate"], configs: "SubtaskConfigs", starts: bool, port: int | None
) -> tuple[list["Candidate"], Rejected]:
    """Those that somebody marks on the page, until all have been seen, the page says so, or Ctrl-C comes."""
    from mimicpipe.annotate.by_hand import HandSession
    from mimicpipe.annotate.frames import DemoPictures
    from mimicpipe.annotate.server import serve_session

    stop = threading.Event()
    session = HandSession(candidates, configs, env.fps, starts)
    pictures = DemoPictures(env)
    try:
        server = serve_session(session, port)
        try:
            server.start()
            print(f"{server.url}   N plays and goes on, B pauses, S marks; Ctrl-C ends", flush=True)
            if pictures.note:
                print(f"drawings instead of pictures: {pictures.note}", flush=True)
            with _stopped_by_signals(stop):
                for index, candidate in enumerate(candidates):
                    if stop.is_set() or session.finished:
                        break
                    session.add_frames(index, pictures.jpegs(candidate))
                while not (stop.is_set() or session.wait(0.1)):
                    continue
                stop.wait(_LAST_ANSWER_S)
        finally:
            session.finish()
            server.stop()
    finally:
        pictures.close()
    return session.accepted, session.rejected


@contextmanager
def _stopped_by_signals(stop: threading.Event) -> Generator[None]:
    """The first SIGINT or SIGTERM sets `stop`, so that what has been marked is written; a second one ends at once."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def handle(number: int, _: FrameType | None) -> None:
        if stop.is_set():
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        stop.set()

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def annotate(config: RunConfig, args: argparse.Namespace, rules: "Rules | None") -> int:
    """Annotate the demos of `args.demos`; the exit code.

    Raises:
        MimicpipeError: the demos, the env or the port cannot be had.
    """
    from mimicpipe import build
    from mimicpipe.annotate.candidates import read_candidates
    from mimicpipe.annotate.verdict import ends, skill_starts, unsuccessful
    from mimicpipe.pools.hdf5_writer import write_demos

    env = build.build_env(config)
    try:
        configs = build.build_subtasks(config)
        found = read_candidates(args.demos, env, configs)
        rejected = list(found.faults)
        candidates = []
        for candidate in found.candidates:
            fault = unsuccessful(candidate, config.task["hold_steps"])
            if fault is None:
                candidates.append(candidate)
            else:
                rejected.append((candidate.demo.name, fault))
        if args.hand:
            accepted, others = by_hand(env, candidates, configs, args.starts, args.port)
        else:
            accepted, others = by_task(candidates, configs, rules)
    finally:
        env.close()
    rejected += others
    for demo in (candidate.demo for candidate in accepted):
        skills, fault = skill_starts(demo, configs)
        print(f"{demo.name}: subtasks end: {ends(demo.info.subtask_term_signals)}; skills begin: {skills}")
        if fault:
            print(f"{demo.name}: not for generator=skillgen: {fault}")
    for name, reason in rejected:
        print(f"{name}: rejected: {reason}")
    if not accepted:
        print(f"error: {args.demos}: none of {len(rejected)} demos can be used", file=sys.stderr)
        return 2
    write_demos(args.out, [candidate.demo for candidate in accepted], _env_args(config))
    print(f"{args.out}: {len(accepted)} of {len(accepted) + len(rejected)} demos. Generate from them:")
    print(f"  python run.py {' '.join([*args.overrides, f'pool.path={args.out}'])}")
    return int(bool(rejected))


def _env_args(config: RunConfig) -> dict[str, Any]:
    """What the file says of where its demos come from."""
    kwargs = {"env": config.env["_target_"], "task": config.task["name"], "variant": config.task["variant"],
              "control": config.env.get("control", "")}  # fmt: skip
    return {"env_name": f"mimicpipe-{config.task['name']}", "type": _GYM_TYPE, "env_kwargs": kwargs}


def _parser() -> argparse.ArgumentParser:
    parser = tool_parser(
        "annotate",
        __doc__,
        exit_codes="Exit code: 0 all demos are in FILE, 1 some are or it failed, 2 none, 130 after Ctrl-C.",
        allow_abbrev=False,
    )
    parser.add_argument("demos", type=Path, metavar="DEMOS", help="HDF5 file, or folder of a LeRobot dataset")
    parser.add_argument("overrides", nargs="*", metavar="KEY=VALUE", help="run.py's keys of task and env")
    parser.add_argument(
        "--out",
        type=Path,
        required=True,
        metavar="FILE",
        help="HDF5 file that the annotated demos go to; must not exist",
    )
    parser.add_argument("--overwrite", action="store_true", help="replace FILE if it exists")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--rules", action="store_true", help="find them by the gripper and distances; nothing is played")
    how.add_argument("--hand", action="store_true", help="mark them by hand, on a page of this machine")
    parser.add_argument("--rule", action="append", default=[], metavar="SIGNAL=KIND[,METRES]",
                        help="with --rules, what ends the subtask of a signal: change, close, open (of the gripper), "
                        "near, away (eef to object); may be repeated")  # fmt: skip
    parser.add_argument("--near", type=float, default=0.12, metavar="M",
                        help="with --rules: a change of the gripper counts within this distance from eef to object "
                        "(default: 0.12)")  # fmt: skip
    parser.add_argument("--settle", type=int, default=5, metavar="STEPS",
                        help="with --rules: steps from the gripper's command to the end (default: 5)")  # fmt: skip
    parser.add_argument("--skill", type=float, default=0.12, metavar="M",
                        help="with --rules: a skill begins this near to its object (default: 0.12)")  # fmt: skip
    parser.add_argument("--starts", action="store_true", help="with --hand: mark where skills begin, too")
    parser.add_argument(
        "--port", type=int, help="with --hand: port of the page (default: 8411, or another if it is taken)"
    )
    return parser


def _rules(args: argparse.Namespace) -> "Rules | None":
    from mimicpipe.annotate.rules import Rules, parse_rule

    if args.rule and not args.rules:
        raise ConfigError(f"--rule {args.rule[0]}: is for --rules; give both")
    for name in ("near", "skill"):
        if not 0.0 < getattr(args, name) < float("inf"):
            raise ConfigError(f"--{name} {getattr(args, name)}: expected a distance in metres, more than 0")
    if args.settle < 0:
        raise ConfigError(f"--settle {args.settle}: expected 0 or more steps")
    if not args.rules:
        return None
    return Rules(args.near, args.settle, args.skill, dict(parse_rule(text) for text in args.rule))


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point; the exit code."""
    args = _parser().parse_intermixed_args(argv)

    def work() -> int:
        args.demos, args.out = args.demos.expanduser(), args.out.expanduser()
        if not args.demos.exists():
            raise ConfigError(f"{args.demos}: no such file or dataset")
        if args.out.resolve() == args.demos.resolve():
            raise ConfigError(f"--out {args.out}: is the file that is read; name another one")
        if args.out.exists() and (not args.overwrite or not args.out.is_file()):
            raise ConfigError(f"--out {args.out}: exists; name another file, or add --overwrite")
        return annotate(checked_config(args.overrides), args, _rules(args))

    return exit_code(work)


if __name__ == "__main__":
    sys.exit(main())
