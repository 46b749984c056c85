"""From a checkpoint to a policy that can be played, whoever has written it."""

from dataclasses import dataclass
from pathlib import Path

from mimicpipe.config import RunConfig
from mimicpipe.datagen.policy import Policy
from mimicpipe.envs.base import MimicEnv
from mimicpipe.errors import ConfigError
from mimicpipe.tools.saved_run import saved_config
from mimicpipe.training.checkpoint import NOTES, Notes, check_matches, load_bc, read_notes
from mimicpipe.training.lerobot_policy import LeRobotPolicy
from mimicpipe.training.lerobot_training import last_checkpoint


@dataclass(frozen=True)
class Playable:
    """A policy with what is known of it."""

    name: str
    """bc, act or diffusion."""
    policy: Policy
    config: RunConfig
    """Of the run whose simulator it plays in."""
    notes: Notes | None
    """None for a folder that LeRobot alone has written."""
    cameras: tuple[str, ...]
    """That it looks through."""

    @property
    def trained_on(self) -> str:
        """For a table."""
        return "?" if self.notes is None else f"{self.notes.dataset['episodes']:,} demos"

    def check(self, env: MimicEnv) -> None:
        """Refuse a simulator that does not show what it reads.

        Raises:
            ConfigError: names the column.
        """
        if self.notes is not None:
            names = {name: feature.names for name, feature in env.observation_features.items()}
            check_matches(self.notes, names, env.action_feature.names or ())
        if isinstance(self.policy, LeRobotPolicy):
            self.policy.check(env.observation_features, env.action_dim)


def load(folder: Path, run: Path | None, device: str) -> Playable:
    """Read a checkpoint of `tools.train`, or of LeRobot's training.

    Args:
        folder: where it is: with policy.json, or LeRobot's output folder or a `pretrained_model` in it.
        run: output folder of the run whose simulator it plays in; None is the one that the checkpoint names.
        device: of LeRobot's networks.

    Raises:
        ConfigError: no checkpoint, a damaged one, or one that names no run.
    """
    notes = read_notes(folder) if (folder / NOTES).is_file() else None
    if notes is None and run is None:
        if not folder.is_dir():
            raise ConfigError(f"{folder}: no such folder; make a checkpoint with python -m mimicpipe.tools.train")
        raise ConfigError(f"{folder}: has no {NOTES}; name the run whose simulator the policy is to play in with --run")
    config = saved_config(run) if run is not None else _config(notes)
    if notes is not None and notes.policy == "bc":
        return Playable("bc", load_bc(folder, notes), config, notes, ())
    weights = folder if (folder / "config.json").is_file() else last_checkpoint(folder)
    policy = LeRobotPolicy(weights, device)
    return Playable(policy.config.type, policy, config, notes, tuple(policy.cameras))


def _config(notes: Notes | None) -> RunConfig:
    assert notes is not None
    return notes.run_config()
