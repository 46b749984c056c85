"""Generate a dataset of demonstrations: compose a run from the groups in conf/, check it, build it, run it.

    python run.py task=pick recorder=async
    python run.py -m env.num_envs=1,4,16 recorder=sync,async num_demos=8
    python run.py resume=outputs/2026-01-31/12-00-00-000000

Exit code: 0 done, 1 failed, 2 the command line cannot be run as it stands, 130 / 143 ended by SIGINT / SIGTERM.
"""

import logging
import os
import sys
from pathlib import Path

try:
    import hydra
    from omegaconf import DictConfig

    from mimicpipe import stdout
    from mimicpipe.cli import check_command_line
    from mimicpipe.errors import ConfigError
    from mimicpipe.report.sweep_end import reported_sweep
    from mimicpipe.resume import with_resumed_arguments
    from mimicpipe.runner import run_job
    from mimicpipe.signals import leave
except KeyboardInterrupt:
    sys.exit(130)  # these imports take a second, in which Ctrl-C is no reason for a traceback

CONFIG_DIR = Path(__file__).resolve().parent / "conf"


@hydra.main(version_base="1.3", config_path=str(CONFIG_DIR), config_name="config")
def job(cfg: DictConfig) -> None:
    """One job of the command line, in its own output folder."""
    run_job(cfg)


def main() -> int:
    """Run the command line; returns the exit code."""
    try:
        sys.argv[1:] = with_resumed_arguments(sys.argv[1:])
        jobs = check_command_line(sys.argv[1:], CONFIG_DIR)
        logging.raiseExceptions = False  # a log that cannot be written, on a full disk, is no reason for tracebacks
        os.environ["HYDRA_FULL_ERROR"] = "1"  # let exceptions come out of Hydra instead of its own report and exit
        with reported_sweep(len(jobs)) as sweep:
            job()
        return sweep.exit_code
    except ConfigError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # --help, and nobody reads it
        stdout.drop()
        return 0
    except Exception as error:
        if not type(error).__module__.startswith(("joblib.", "submitit.")):
            raise
        reason = next((line for line in str(error).splitlines() if line.strip()), "")
        print(f"error: the launcher broke off: {type(error).__name__}: {reason}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    try:
        code = main()
    except SystemExit as leaving:
        code = leaving.code if isinstance(leaving.code, int) else int(leaving.code is not None)
    leave(code)
