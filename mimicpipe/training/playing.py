"""From a checkpoint to a policy that can be played, whoever has written it."""

from dataclasses import dataclass
from pathlib import Path

from mimicpipe.config import RunConfig
from mimicpipe.datagen.policy import Policy, PolicyGenerator
from mimicpipe.envs.base import MimicEnv
from mimicpipe.errors import ConfigError
from mimicpipe.tools.saved_run import saved_config
from mimicpipe.training.checkpoint import Notes, check_matches, load_bc, read_notes
from mimicpipe.training.kinds import NOTES, check_playable, last_checkpoint
from mimicpipe.training.lerobot_policy import LeRobotPolicy


@dataclass(frozen=True)
class Playable:
    """A policy with what is known of it."""

    name: str
    """bc, act or diffusion."""
    policy: Policy
    notes: Notes | None
    """None for a folder that LeRobot alone has written."""
    cameras: tuple[str, ...]
    """That it looks through."""

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


def load(folder: Path, device: str) -> Playable:
    """Read a checkpoint of `tools.train`, or of LeRobot's training.

    Args:
        folder: where it is: with policy.json, or LeRobot's output folder or a `pretrained_model` in it.
        device: of LeRobot's networks.

    Raises:
        ConfigError: no checkpoint, a damaged one, or one of a policy that cannot be played here.
    """
    name = check_playable(folder)
    notes = read_notes(folder) if (folder / NOTES).is_file() else None
    if notes is not None and name == "bc":
        return Playable(name, load_bc(folder, notes), notes, ())
    policy = LeRobotPolicy(last_checkpoint(folder), device)
    return Playable(name, policy, notes, tuple(policy.cameras))


def simulator_of(folder: Path, run: Path | None) -> RunConfig:
    """The config of the run whose simulator a checkpoint's policy plays in.

    Args:
        folder: of the checkpoint.
        run: the run's output folder; None is the run that the checkpoint names.

    Raises:
        ConfigError: no checkpoint, or one that names no run.
    """
    check_playable(folder)
    if run is not None:
        return saved_config(run)
    if not (folder / NOTES).is_file():
        raise ConfigError(f"{folder}: has no {NOTES}; name the run whose simulator the policy is to play in with --run")
    return read_notes(folder).run_config()


class CheckpointGenerator(PolicyGenerator):
    """A trained policy as the generator of a run: what succeeds is recorded like any other demo.

    Args:
        env: the simulator.
        checkpoint: folder of `tools.train`, or of LeRobot's training.
        device: of LeRobot's networks; `bc` is played on the CPU.

    Raises:
        ConfigError: no checkpoint, or one that was trained in another simulator.
    """

    def __init__(self, env: MimicEnv, checkpoint: str, device: str = "cpu") -> None:
        found = load(Path(checkpoint).expanduser(), device)
        found.check(env)
        super().__init__(env, found.policy)
