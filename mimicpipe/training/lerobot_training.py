"""LeRobot's own training on a dataset of ours: its command line, with what state-only data on a CPU need."""

import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from mimicpipe.errors import ConfigError, MimicpipeError

NEEDS = {"act": ("accelerate",), "diffusion": ("accelerate", "diffusers")}
_STATE_ONLY = {
    "act": {
        "chunk_size": "32", "n_action_steps": "16", "dim_model": "128", "n_heads": "4", "dim_feedforward": "512",
        "n_encoder_layers": "2", "n_vae_encoder_layers": "2",
    },
    "diffusion": {"down_dims": "[64,128,256]", "horizon": "16", "n_action_steps": "8", "num_inference_steps": "10"},
}  # fmt: skip
"""A few hundred thousand parameters instead of tens of millions, whose size is for images."""
_ALWAYS = {
    "act": {"pretrained_backbone_weights": "null"},  # those would be downloaded
    # The sampler that draws nothing after its first noise, so that a rollout is a function of its seed.
    "diffusion": {"pretrained_backbone_weights": "null", "noise_scheduler_type": "DDIM"},
}


@dataclass(frozen=True)
class LeRobotJob:
    """One call of `lerobot-train`."""

    policy: str
    """act or diffusion."""
    dataset: Path
    episodes: int
    """From the first."""
    out: Path
    steps: int
    batch: int
    seed: int
    device: str
    has_cameras: bool

    def arguments(self, more: Sequence[str] = ()) -> list[str]:
        """Its command line; `more` comes last, and so wins."""
        own = {**_ALWAYS[self.policy], **({} if self.has_cameras else _STATE_ONLY[self.policy])}
        given = {argument.split("=")[0] for argument in more}
        arguments = {
            "--dataset.repo_id": f"local/{self.dataset.name}",
            "--dataset.root": str(self.dataset),
            "--dataset.episodes": str(list(range(self.episodes))).replace(" ", ""),
            "--policy.type": self.policy,
            "--policy.device": self.device,
            "--policy.push_to_hub": "false",
            **{f"--policy.{name}": value for name, value in own.items()},
            "--output_dir": str(self.out),
            "--steps": str(self.steps),
            "--save_freq": str(self.steps),
            "--batch_size": str(self.batch),
            "--seed": str(self.seed),
            "--num_workers": "0",
            "--env_eval_freq": "0",
            "--wandb.enable": "false",
        }
        return [f"{name}={value}" for name, value in arguments.items() if name not in given] + list(more)


def check_installed(policy: str) -> None:
    """Raise ConfigError unless the packages are there that LeRobot's training needs."""
    if missing := [name for name in NEEDS[policy] if find_spec(name) is None]:
        raise ConfigError(
            f"--policy {policy}: needs {', '.join(missing)}; install the extra: pip install -e '.[train]'"
        )


def train(job: LeRobotJob, more: Sequence[str] = ()) -> None:
    """Run it in a process of its own, which writes to this terminal.

    Raises:
        MimicpipeError: it failed; it has said why.
    """
    command = [sys.executable, "-m", "lerobot.scripts.lerobot_train", *job.arguments(more)]
    environment = {**os.environ, "HF_HUB_OFFLINE": "1"}  # everything is here
    code = subprocess.run(command, env=environment, check=False).returncode
    if code:
        raise MimicpipeError(f"lerobot_train ended with exit code {code}; what it printed above says why")
