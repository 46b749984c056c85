"""Sweeps with Hydra's launchers: joblib and submitit, each job in a process of its own."""

import json
import os
import subprocess
import sys

import hydra.version
import pytest
from hydra.core.config_store import ConfigStore
from hydra.core.plugins import Plugins
from in_process import ROOT, run_main

from mimicpipe.cli import LAUNCHERS, check_command_line
from mimicpipe.errors import ConfigError

OWN = ROOT / "tests" / "cli"
QUICK = ["env=kinematic", "env.num_envs=2", "num_demos=2", "recorder=none", "tracker=none", "pool=straight"]
SLURM = ["-m", "hydra/launcher=submitit_slurm", "hydra.launcher.partition=long", "hydra.launcher.cpus_per_task=8"]


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    hydra.version.setbase("1.3")


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("launcher", [["joblib", "hydra.launcher.n_jobs=2"], ["submitit_local"]])
def test_one_bad_job_does_not_stop_the_others(launcher, tmp_path):
    name, *options = launcher
    flags = ["-m", "--config-dir", str(OWN / "own_conf"), f"hydra/launcher={name}", *options]
    command = [sys.executable, ROOT / "run.py", *flags, *QUICK, "allowed_targets=[own_pool]", "pool.height=0,0.12,0.0"]
    environment = {**os.environ, "PYTHONPATH": str(OWN)}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 1, done.stderr
    assert done.stderr.splitlines()[-1] == "sweep: 2 of 3 jobs failed: 0 (pool.height=0); 2 (pool.height=0.0)"
    runs = [json.loads(path.read_text()) for path in sorted(tmp_path.glob("multirun/*/*/*/run.json"))]
    assert [run["exit_code"] for run in runs] == [1, 0, 1]
    assert runs[1]["counts"]["successes"] == 2
    (page,) = tmp_path.glob("multirun/*/*/report.html")
    assert "; failed: 0, 2." in page.read_text()


def test_what_slurm_is_asked_for(tmp_path, monkeypatch, capfd):
    """There is no Slurm here: `sbatch` keeps what the launcher gives it, and refuses it."""
    (tmp_path / "bin").mkdir()
    for tool, code in (("sbatch", 1), ("srun", 0)):
        (tmp_path / "bin" / tool).write_text(f"#!/bin/sh\ncp $1 {tmp_path}\necho no partition long >&2\nexit {code}\n")
        (tmp_path / "bin" / tool).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    arguments = [*SLURM, "hydra.launcher.timeout_min=90", "seed=0,1,2", "recorder=none", "tracker=none"]
    assert run_main(arguments, tmp_path) == 1
    (script,) = tmp_path.glob(".submission_file_*.sh")
    lines = script.read_text().splitlines()
    for option in ("array=0-2%3", "partition=long", "cpus-per-task=8", "time=90", "job-name=mimicpipe"):
        assert f"#SBATCH --{option}" in lines
    assert capfd.readouterr().err.splitlines()[-2:] == [
        "sweep: 3 of 3 jobs did not begin",
        "error: the launcher broke off: FailedJobError: no partition long",
    ]


def test_jobs_of_every_launcher_are_checked_before_anything_is_made(tmp_path):
    for launcher in LAUNCHERS:
        jobs = check_command_line(["-m", f"hydra/launcher={launcher}", "seed=1,2"], ROOT / "conf")
        assert [job.config.seed for job in jobs] == [1, 2]
        assert [job.output_dir.name for job in jobs] == ["0", "1"]
        with pytest.raises(ConfigError, match="task=pikc: no such option"):
            check_command_line(["-m", f"hydra/launcher={launcher}", "task=pick,pikc"], ROOT / "conf")
    assert list(tmp_path.iterdir()) == []


def test_a_launcher_that_is_not_installed_is_one_line(monkeypatch):
    Plugins.instance()
    repo = ConfigStore.instance().repo
    monkeypatch.delitem(repo["hydra"]["launcher"], "joblib.yaml")
    with pytest.raises(ConfigError, match=r"hydra/launcher=joblib: is not installed; pip install -e '\.\[launchers\]'"):
        check_command_line(["-m", "hydra/launcher=joblib"], ROOT / "conf")
    with pytest.raises(ConfigError, match="hydra/launcher=joblip: no such option"):
        check_command_line(["-m", "hydra/launcher=joblip"], ROOT / "conf")
