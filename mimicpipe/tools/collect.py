"""Make source demos by hand: `python -m mimicpipe.tools.collect task=pick [--out FILE]`.

Opens a page on this machine (127.0.0.1 only) that shows the scene; keys or a gamepad steer the arm. Start a demo, do
the task, save: it is appended, annotated, to FILE (default: demos/<task>.hdf5), and a run generates from it with
`python run.py task=pick pool.path=FILE`. Takes run.py's keys of task and env, seed and allowed_targets; one env at a
time. Ctrl-C ends it; every saved demo is there. From another machine: `ssh -L 8410:127.0.0.1:8410 HOST`.
"""

import os
import re
import shlex
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
from mimicpipe.errors import ConfigError
from mimicpipe.signals import EXIT_CODES
from mimicpipe.tools.exits import exit_code, tool_parser

if TYPE_CHECKING:
    from mimicpipe.collect.demo_file import DemoFile

CONFIG_DIR = Path(__file__).resolve().parents[2] / "conf"
_KEYS = ("task", "env", "seed", "allowed_targets")
_FIXED = ("env.num_envs=1", "pool=scripted", "recorder=none", "tracker=none", "preview=false")
"""A pool that needs no file: whoever collects may have none yet."""
_GYM_TYPE = 2
"""robomimic's EnvType of a gym environment."""


def checked_config(overrides: Sequence[str]) -> RunConfig:
    """The config of a run's keys, as far as they concern who collects.

    Raises:
        ConfigError: one line, as run.py has them.
    """
    for override in overrides:
        key = override.lstrip("+~").partition("=")[0]
        if key.partition(".")[0] not in _KEYS:
            raise ConfigError(f"{override}: collect takes keys of {', '.join(_KEYS)}; and --out, --port, --open")
        if _is_sweep(override):
            raise ConfigError(f"{override}: several values; collect takes one, or [a,b] for a list")
    (job,) = check_command_line([*_FIXED, *overrides], CONFIG_DIR)
    config = job.config
    if config.env["num_envs"] != 1:
        raise ConfigError(f"env.num_envs={config.env['num_envs']}: collect has one env; leave the key out")
    if config.env.get("cameras"):
        raise ConfigError(f"env.cameras={config.env['cameras']}: demos are kept without frames; leave the key out")
    return config


def _is_sweep(override: str) -> bool:
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import OverrideParseException

    try:
        return OverridesParser.create().parse_override(override).is_sweep_override()
    except OverrideParseException:
        return False  # `check_command_line` says what is wrong


def env_args(config: RunConfig) -> dict[str, Any]:
    """What the file says of where its demos come from."""
    kwargs = {
        "env": config.env["_target_"],
        "task": config.task["name"],
        "variant": config.task["variant"],
        "control": config.env.get("control", ""),
    }
    return {"env_name": f"mimicpipe-{config.task['name']}", "type": _GYM_TYPE, "env_kwargs": kwargs}


def longest_demo(config: RunConfig) -> int:
    """Steps of a demo that leave an attempt made from it within task.max_episode_steps."""
    more = 0
    for nodes in config.task["subtasks"].values():
        more = max(more, sum(node["num_interpolation_steps"] + node["num_fixed_steps"] for node in nodes))
    return max(1, config.task["max_episode_steps"] - more - config.task["datagen"]["settle_steps"])


def generate_command(overrides: Sequence[str], path: Path) -> str:
    """The command line of a run that generates from the file."""
    # Hydra's grammar wants quotes around some characters; OmegaConf resolves what is not escaped even within them.
    quoted = str(path).replace("'", "\\'").replace("${", "\\${")
    plain = re.fullmatch(r"[\w./~-]+", str(path)) is not None
    keys = [key for key in overrides if not key.startswith("seed=")]
    return f"python run.py {shlex.join([*keys, f'pool.path={path}' if plain else f"pool.path='{quoted}'"])}"


def collect(
    config: RunConfig, overrides: Sequence[str], out: Path, port: int | None, open_page: bool, stop: threading.Event
) -> "DemoFile":
    """Serve the page until `stop` is set; returns the file.

    Args:
        config: from `checked_config`.
        overrides: what it was made from.
        out: the file.
        port: see `LocalServer`.
        open_page: also open a browser.
        stop: ends it after the current step.

    Raises:
        ConfigError: the file, the port, the env or the task cannot be had.
    """
    from mimicpipe import build
    from mimicpipe.collect.demo_file import DemoFile
    from mimicpipe.collect.hub import Hub
    from mimicpipe.collect.loop import run
    from mimicpipe.collect.scene_view import picture_of
    from mimicpipe.collect.server import serve_hub
    from mimicpipe.collect.session import Rules, Session

    file = DemoFile(out, env_args(config))
    env = build.build_env(config)
    try:
        picture = picture_of(env)
        try:
            hub = Hub(picture.first_view)
            server = serve_hub(hub, port)
            try:
                rules = Rules(config.task["hold_steps"], longest_demo(config))
                session = Session(env, build.build_subtasks(config), file, rules, config.seed)
                about = {"task": config.task["name"], "variant": config.task["variant"], "fps": env.fps,
                         "description": env.task_description,
                         "generate": generate_command(overrides, file.path)}  # fmt: skip
                server.start()
                _greet(server.url, file, open_page)
                run(env, session, picture, hub, about, stop)
            finally:
                hub.close()
                server.stop()
        finally:
            picture.close()
    finally:
        env.close()
    if session.recording is not None:
        print(f"the demo that was being recorded, {session.recording.length} steps, is not kept")
    return file


def _greet(url: str, file: "DemoFile", open_page: bool) -> None:
    print(f"{url}   Ctrl-C ends")
    has = f"has {_demos(file)}" if file.saved else "is new"
    print(f"demos go into {file.path}, which {has}", flush=True)
    if open_page:
        import webbrowser

        if not webbrowser.open(url):
            print("no browser could be opened; open the address by hand", file=sys.stderr)


def _demos(file: "DemoFile") -> str:
    return f"{len(file.saved)} demo{'s' if len(file.saved) != 1 else ''}"


@contextmanager
def stopped_by_signals(stop: threading.Event) -> Generator[list[str]]:
    """The first SIGINT or SIGTERM sets `stop`, the second ends the process; yields the names of those that came."""
    seen: list[str] = []
    if threading.current_thread() is not threading.main_thread():
        yield seen
        return

    def handle(number: int, _: FrameType | None) -> None:
        if seen:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        seen.append(signal.Signals(number).name)
        stop.set()

    before = {number: signal.signal(number, handle) for number in (signal.Signals[name] for name in EXIT_CODES)}
    try:
        yield seen
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point; the exit code: 0 also after Ctrl-C, which is how collecting ends; 143 after SIGTERM."""
    parser = tool_parser(
        "collect",
        __doc__,
        exit_codes="Exit code: 0 also after Ctrl-C, 2 cannot be done as it was asked.",
        allow_abbrev=False,
    )
    parser.add_argument("overrides", nargs="*", metavar="KEY=VALUE", help="run.py's keys of task, env and seed")
    parser.add_argument(
        "--out", type=Path, metavar="FILE", help="HDF5 file that demos are appended to (default: demos/<task>.hdf5)"
    )
    parser.add_argument("--port", type=int, help="port of the page (default: 8410, or another if it is taken)")
    parser.add_argument("--open", action="store_true", help="open the page in the browser")
    args = parser.parse_intermixed_args(argv)
    stop = threading.Event()

    def work() -> int:
        with stopped_by_signals(stop) as seen:
            config = checked_config(args.overrides)
            out = args.out if args.out is not None else Path("demos") / f"{config.task['name']}.hdf5"
            file = collect(config, args.overrides, out, args.port, args.open, stop)
        if file.saved:
            print(f"{file.path}: {_demos(file)}. Generate from them:")
            print(f"  {generate_command(args.overrides, file.path)}")
        else:
            print("no demo was saved")
        return EXIT_CODES["SIGTERM"] if "SIGTERM" in seen else 0

    return exit_code(work)


if __name__ == "__main__":
    sys.exit(main())
