"""Schemas of the group `generator`, and of the constraints between subtasks."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from omegaconf import MISSING

from mimicpipe.errors import ConfigError
from mimicpipe.schema import at_least, show, within

Constraint = StrEnum("Constraint", ["sequential", "coordination"])
CoordinationScheme = StrEnum("CoordinationScheme", ["replay", "transform", "translate"])
SKILL_GENERATOR = "mimicpipe.datagen.skillgen.SkillGenerator"
REPLAY_GENERATOR = "mimicpipe.datagen.replay.ReplayGenerator"
POLICY_GENERATOR = "mimicpipe.training.playing.CheckpointGenerator"
GENERATOR_RUN_KEYS = ("perturbation",)
"""Keys of `generator` that are for the run, not for the generator's constructor."""


@dataclass
class ConstraintConfig:
    """How two subtasks are tied; the fields are those of `mimicpipe.datagen.constraints.SubTaskConstraintConfig`."""

    eef_subtask_constraint_tuple: list[Any] = MISSING
    constraint_type: Constraint = MISSING
    sequential_min_time_diff: int = at_least(-1, -1)
    coordination_scheme: CoordinationScheme = CoordinationScheme["replay"]
    coordination_scheme_pos_noise_scale: float = at_least(0, 0.0)
    coordination_scheme_rot_noise_scale: float = at_least(0, 0.0)
    coordination_synchronize_start: bool = False


@dataclass
class PerturbationConfig:
    """The fields are those of `mimicpipe.pipeline.perturbation.PerturbationConfig`."""

    probability: float = within(0, 1, 0.0)
    window: int = at_least(1, 40)
    steps: list[int] = field(default_factory=lambda: [4, 8], metadata={"interval": True})
    scale: float = at_least(0, 0.5)


@dataclass
class GeneratorConfig:
    """`generator`: what every generator has."""

    _target_: str = MISSING
    _convert_: str = "all"
    perturbation: PerturbationConfig = field(default_factory=PerturbationConfig)


@dataclass
class PoseNoiseConfig:
    """The fields are those of `mimicpipe.datagen.pose_noise.PoseNoise`."""

    position: float = within(0, 1, 0.0)
    rotation: float = within(0, 3.15, 0.0)


@dataclass
class MimicgenGeneratorConfig(GeneratorConfig):
    """`generator=mimicgen`."""

    pose_noise: PoseNoiseConfig = field(default_factory=PoseNoiseConfig)


@dataclass
class ReplayGeneratorConfig(GeneratorConfig):
    """`generator=replay`."""

    state_tolerance: float = at_least(0, 1e-3)
    position_tolerance: float = at_least(0, 1e-3)
    rotation_tolerance: float = at_least(0, 1e-2)


@dataclass
class SkillGeneratorConfig(MimicgenGeneratorConfig):
    """`generator=skillgen`."""

    demo_tries: int = at_least(1, 10)
    lead_held: bool = True


@dataclass
class PolicyGeneratorConfig(GeneratorConfig):
    """`generator=policy`."""

    checkpoint: str = MISSING
    device: str = "cpu"


GENERATOR_SCHEMAS: dict[str, type] = {
    "mimicpipe.datagen.generator.DataGenerator": MimicgenGeneratorConfig,
    REPLAY_GENERATOR: ReplayGeneratorConfig,
    SKILL_GENERATOR: SkillGeneratorConfig,
    POLICY_GENERATOR: PolicyGeneratorConfig,
}


def check_generator(node: dict[str, Any]) -> None:
    """Raise ConfigError unless a disturbance fits into its window."""
    perturbation = node["perturbation"]
    low, high = perturbation["steps"]
    if not 1 <= low <= high <= perturbation["window"]:
        raise ConfigError(
            f"generator.perturbation.steps={show(perturbation['steps'])}: a disturbance lasts from 1 step to as many "
            f"as generator.perturbation.window={perturbation['window']} has"
        )
