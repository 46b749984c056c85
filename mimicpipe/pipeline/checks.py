"""What is wrong with an action or a plan, in words; found where it is put, so that only that attempt fails."""

from typing import Any

import torch

from mimicpipe.pipeline.protocol import Plan
from mimicpipe.poses import compose_rotations

_LARGEST_DEFECT = 0.1
"""Rotations that were interpolated carelessly may pass; what has no direction would stop the whole batch in the IK."""


class RequestChecks:
    """Checks of what slots ask for.

    Args:
        device: the env's.
        action_dim: A.
        eef_names: every eef needs a part of a plan.
        gripper_dim: G.
        noise_dim: P.
    """

    def __init__(
        self, device: torch.device, action_dim: int, eef_names: tuple[str, ...], gripper_dim: int, noise_dim: int
    ) -> None:
        self.device = device
        self.action_dim = action_dim
        self._eef_names = eef_names
        self._gripper_dim = gripper_dim
        self._noise_dim = noise_dim

    def of_action(self, action: torch.Tensor) -> str | None:
        """The fault of a single action; whether it is finite is seen when all of a step are stacked."""
        if tuple(action.shape) != (self.action_dim,):
            return f"an action of shape {tuple(action.shape)}, not ({self.action_dim},)"
        if action.device != self.device:
            return f"an action on {action.device}; the env's device is {self.device}"
        if action.dtype.is_complex or action.dtype == torch.bool:
            return f"an action of dtype {action.dtype}; it must be of real numbers"
        return None

    def of_plan(self, plan: Plan) -> str | None:
        """The fault of a plan."""
        for eef in self._eef_names:
            target, gripper, noise = plan.targets.get(eef), plan.grippers.get(eef), plan.noise.get(eef)
            if target is None or gripper is None:
                return f"a plan without targets or grippers for eef {eef!r}"
            parts: dict[str, Any] = {"targets": target, "grippers": gripper}
            if noise is not None:
                parts["noise"] = noise
            for name, part in parts.items():
                if not isinstance(part, torch.Tensor):
                    return f"a plan whose {name} for eef {eef!r} are a {type(part).__name__}, not a tensor"
                if part.device != self.device:
                    return f"a plan whose {name} for eef {eef!r} are on {part.device}; the env's is {self.device}"
            steps = target.shape[0] if target.ndim else 0
            shapes = {
                "targets": (steps, 4, 4),
                "grippers": (steps, self._gripper_dim),
                "noise": (steps, self._noise_dim),
            }
            if steps == 0 or any(tuple(part.shape) != shapes[name] for name, part in parts.items()):
                given = " and ".join(f"{name} {tuple(part.shape)}" for name, part in parts.items())
                return (
                    f"a plan with {given} for eef {eef!r}; they must be targets (T, 4, 4), "
                    f"grippers (T, {self._gripper_dim}) and noise (T, {self._noise_dim}) with T > 0"
                )
            if not all(bool(torch.isfinite(part).all()) for part in parts.values()):
                return f"a plan that is not finite, for eef {eef!r}"
            rotation = target[:, :3, :3].to(torch.float32)
            product = compose_rotations(rotation.transpose(-1, -2), rotation)
            if float((product - torch.eye(3, device=self.device)).abs().max()) > _LARGEST_DEFECT:
                return f"a plan whose targets for eef {eef!r} are no poses: their rotations are not orthonormal"
        return None
