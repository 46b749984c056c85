"""What one source demonstration tells the generator (Isaac Lab Mimic's `DatagenInfo`)."""

from dataclasses import dataclass, field

from torch import Tensor


@dataclass(slots=True)
class DatagenInfo:
    """Trajectories of one demo, T control steps; poses (T, 4, 4) float32 in the env's own frame, metres."""

    eef_pose: dict[str, Tensor]
    """{eef: (T, 4, 4)} measured poses, before each action."""
    object_poses: dict[str, Tensor]
    """{object: (T, 4, 4)} before each action."""
    subtask_term_signals: dict[str, Tensor]
    """{signal: (T,) bool}."""
    target_eef_pose: dict[str, Tensor]
    """{eef: (T, 4, 4)} poses that each action asks for."""
    gripper_action: dict[str, Tensor]
    """{eef: (T, G)}."""
    subtask_start_signals: dict[str, Tensor] = field(default_factory=dict)
    """{signal: (T,) bool}; only skill segments that are planned to (SkillGen) need them."""

    @property
    def length(self) -> int:
        """Number of control steps T."""
        return next(iter(self.eef_pose.values())).shape[0]


@dataclass(slots=True)
class SourceDemo:
    """A demonstration as it stands in a file: what generation needs and what replaying it needs."""

    name: str
    """Where it comes from, for messages, e.g. "demo_3"."""
    info: DatagenInfo
    actions: Tensor
    """(T, A) float32."""
    initial_state: Tensor | None = None
    """(S,) float64, the env's `get_state` before the first action."""
    observations: dict[str, Tensor] = field(default_factory=dict)
    """{feature: (T, *shape)}."""
    success: bool = True
    origin: str = ""
    """Where messages say it is, e.g. "demos.hdf5: demo_3"; empty is its name."""
    states: Tensor | None = None
    """(T, S) float64, the env's `get_state` before each action; replaying is compared with them."""
