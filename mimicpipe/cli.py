"""The command line, checked before Hydra acts on it: every fault is one line, and nothing has been made yet.

Hydra composes a config, makes the output folder, and only then calls the program. So each job of the command line (one,
or one per combination of a sweep) is composed here first, without side effects, and checked; Hydra then does it again.
"""

import copy
import re
from argparse import ArgumentParser, Namespace
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, cast

from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra._internal.hydra import Hydra
from hydra._internal.utils import create_automatic_config_search_path, get_args_parser
from hydra.core.config_search_path import SearchPathQuery
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException, MissingConfigException, OverrideParseException
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf, open_dict, read_write
from omegaconf.errors import ConfigKeyError, OmegaConfBaseException

from mimicpipe.config import RunConfig, check
from mimicpipe.errors import ConfigError
from mimicpipe.preflight import check_machine, check_paths
from mimicpipe.resume import check_resumed
from mimicpipe.schema import suggest

CONFIG_NAME = "config"
LAUNCHERS = ("joblib", "submitit_local", "submitit_slurm")
"""Hydra's launchers of the extra `launchers`."""


@dataclass(frozen=True)
class Job:
    """One job of a command line."""

    config: RunConfig
    output_dir: Path


def check_command_line(argv: Sequence[str], config_dir: Path) -> list[Job]:
    """Compose and check every job that Hydra is going to run.

    Args:
        argv: arguments without the program's name.
        config_dir: the folder of `config.yaml`.

    Returns:
        The jobs; none where the arguments ask for help, the config or shell completion.

    Raises:
        ConfigError: one line; no folder or file has been made.
    """
    args = _parse(argv)
    if args.shell_completion or args.hydra_help:
        return []
    with _hydra(args, config_dir) as hydra:
        name = args.config_name or CONFIG_NAME
        try:
            jobs = list(_compose(hydra, name, args))
        except (HydraException, OmegaConfBaseException, ValueError) as error:
            raise ConfigError(_explain(error, hydra, name, args.overrides)) from error
        if args.help or args.cfg or args.info:
            return []
        checked = [_check_job(cfg) for cfg in jobs]
        for job in checked:
            check_resumed(job.config)
    check_paths([(job.config, job.output_dir) for job in checked])
    return checked


def _parse(argv: Sequence[str]) -> Namespace:
    parser = get_args_parser()

    def fail(message: str) -> NoReturn:
        if message.startswith("unrecognized arguments") and "=" in message:
            message += "; write flags such as -m before all key=value arguments"
        raise ConfigError(f"{message}; see --help and --hydra-help")

    cast(Any, parser).error = fail
    assert isinstance(parser, ArgumentParser)
    args = parser.parse_args(list(argv))
    modes = [f"--{name}" for name in ("run", "multirun", "cfg", "info", "shell_completion") if getattr(args, name)]
    if len(modes) > 1:
        fail(f"{' and '.join(modes)}: give one of them".replace("_", "-"))
    return args


@contextmanager
def _hydra(args: Namespace, config_dir: Path) -> Generator[Hydra]:
    """Hydra with the search path that its own entry point would use."""
    base = Path(args.config_path) if args.config_path else config_dir
    search_path = create_automatic_config_search_path(None, None, str((config_dir.parent / base).absolute()))
    if args.config_dir is not None:
        extra = Path(args.config_dir).absolute()
        if not extra.is_dir():
            raise ConfigError(f"--config-dir={args.config_dir}: no such folder")
        search_path.prepend("command-line", f"file://{extra}", SearchPathQuery(provider="schema"))
    before = HydraConfig.instance().cfg
    try:
        yield Hydra.create_main_hydra2(task_name="run", config_search_path=search_path)
    finally:
        GlobalHydra.instance().clear()
        HydraConfig.instance().cfg = before


def _compose(hydra: Hydra, name: str, args: Namespace) -> Iterator[DictConfig]:
    """The config of each job, with Hydra's node, as its sweeper and launcher would compose it."""
    loader = hydra.config_loader
    if not args.multirun:
        try:
            cfg = loader.load_configuration(name, list(args.overrides), RunMode.RUN)
        except HydraException:
            if hydra.get_mode(name, list(args.overrides)) != RunMode.MULTIRUN:
                raise
        else:
            if cfg.hydra.mode != RunMode.MULTIRUN:
                yield _with_output_dir(cfg, "hydra.run.dir")
                return
    master = loader.load_configuration(name, list(args.overrides), RunMode.MULTIRUN)
    if not str(master.hydra.sweeper._target_).endswith(".BasicSweeper"):
        return  # another sweeper chooses its jobs as it goes; each is checked when it starts
    HydraConfig.instance().set_config(master)
    OmegaConf.select(master, "hydra.sweep.dir")  # jobs take over what is resolved by now, so the time is that of all
    params = [f"{key}={value}" for key, value in (master.hydra.sweeper.params or {}).items()]
    given = cast(list[str], OmegaConf.to_container(master.hydra.overrides.task, resolve=False))
    overrides = OverridesParser.create(config_loader=loader).parse_overrides([*params, *given])
    (combinations,) = BasicSweeper.split_arguments(overrides, max_batch_size=None)
    for number, combination in enumerate(combinations):
        cfg = loader.load_sweep_config(master, list(combination))
        with open_dict(cfg):
            cfg.hydra.job.id = cfg.hydra.job.num = number
        yield _with_output_dir(cfg, "hydra.sweep.dir", "hydra.sweep.subdir")


def _with_output_dir(cfg: DictConfig, *keys: str) -> DictConfig:
    HydraConfig.instance().set_config(cfg)
    output_dir = Path(*(str(OmegaConf.select(cfg, key)) for key in keys)).absolute()
    with read_write(cfg.hydra.runtime), open_dict(cfg.hydra.runtime):
        cfg.hydra.runtime.output_dir = str(output_dir)
    return cfg


def _check_job(cfg: DictConfig) -> Job:
    HydraConfig.instance().set_config(cfg)
    output_dir = Path(cfg.hydra.runtime.output_dir)
    task_cfg = copy.deepcopy(cfg)
    with read_write(task_cfg), open_dict(task_cfg):
        del task_cfg["hydra"]
    config = check(task_cfg)
    check_machine(config)
    return Job(config, output_dir)


def _explain(error: Exception, hydra: Hydra, name: str, overrides: Sequence[str]) -> str:
    """One line for an error of Hydra's composition: the key, the value given, what is valid."""
    if isinstance(error, OverrideParseException):
        return (
            f"{error.override}: cannot be read as key=value; quote a value with special characters, and all of it for "
            f"the shell: 'key=\"a=b\"'"
        )
    if isinstance(error, MissingConfigException) and error.missing_cfg_file:
        group, _, option = error.missing_cfg_file.rpartition("/")
        valid = error.options if error.options is not None else hydra.config_loader.get_group_options(group)
        if group == "hydra/launcher" and option in LAUNCHERS:
            return f"{group}={option}: is not installed; pip install -e '.[launchers]'"
        return f"{group or 'config'}={option}: no such option; {suggest(option, valid)}"
    if match := re.match(r"Ambiguous value for argument '(.*)'", str(error)):
        return f"{match[1]}: several values; add -m to sweep over them, or write [a,b] for a list"
    override = _culprit(hydra, name, overrides)
    cause = error.__cause__
    if isinstance(cause, ConfigKeyError | AttributeError) and isinstance(cause, OmegaConfBaseException):
        # An option of another group may have the key, so that leaving out the group's would do, too.
        named = (each for each in overrides if each.lstrip("+~").partition("=")[0] == cause.full_key)
        return f"{next(named, override or cause.full_key)}: {_unknown_key(cause)}"
    key, _, value = override.partition("=")
    if override and not key:
        return f"{override}: not of the form key=value"
    if override and (options := hydra.config_loader.get_group_options(key)):
        return f"{override}: no such option; {suggest(value, options)}"
    reason = " ".join(line.strip() for line in str(error).splitlines() if "https://" not in line)
    return f"{override}: {reason}" if override else reason


def _unknown_key(error: OmegaConfBaseException) -> str:
    parent = error.parent_node
    if isinstance(parent, DictConfig):
        return f"no such key; {suggest(str(error.key), [key for key in parent if key != 'hydra'])}"
    return f"no such key; {str(error.full_key).rpartition('.')[0]} has no keys of its own"


def _culprit(hydra: Hydra, name: str, overrides: Sequence[str]) -> str:
    """The first override without which the others can be composed, or else that cannot be composed alone.

    Empty where neither is so. A key may exist only with another override (`pool=scripted pool.seed=1`), so leaving one
    out comes first.
    """
    for number, override in enumerate(overrides):
        if _composes(hydra, name, [*overrides[:number], *overrides[number + 1 :]]):
            return override
    return next((override for override in overrides if not _composes(hydra, name, [override])), "")


def _composes(hydra: Hydra, name: str, overrides: Sequence[str]) -> bool:
    try:
        hydra.config_loader.load_configuration(name, list(overrides), RunMode.MULTIRUN)
    except (HydraException, OmegaConfBaseException, ValueError):
        return False
    return True
