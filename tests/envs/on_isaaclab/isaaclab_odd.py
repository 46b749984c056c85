"""An environment of someone else's package: actions in units of their own, images, a class as success term, noise."""

from typing import Any

import gymnasium
import torch
from isaaclab.managers import EventTermCfg, ManagerTermBase, ObservationGroupCfg, ObservationTermCfg
from isaaclab.utils import configclass
from isaaclab.utils.noise import GaussianNoiseCfg
from torch import Tensor

from mimicpipe.envs.isaaclab import pick_terms
from mimicpipe.envs.isaaclab.pick import PickIkRelEnv
from mimicpipe.envs.isaaclab.pick_cfg import PickIkRelEnvCfg

ID = "Odd-Pick-Mimic-v0"
HEIGHT, WIDTH = 16, 24


class OddEnv(PickIkRelEnv):
    """Half a metre is one, so neither of the known layouts fits."""

    def _pose_action(self, target: Tensor, current: Tensor) -> Tensor:
        return 2.0 * super()._pose_action(target, current)

    def action_to_target_eef_pose(self, action: Tensor) -> dict[str, Tensor]:
        """Inverse of the above."""
        halved = torch.cat((action[:, :6] / 2.0, action[:, 6:]), dim=1)
        return super().action_to_target_eef_pose(halved)


class Picked(ManagerTermBase):
    """Success as a class, which Isaac Lab's managers make an object of."""

    def __call__(self, env: Any, height: float) -> Tensor:
        """(N,) bool."""
        return pick_terms.picked(env) & (pick_terms.cube_pos(env)[:, 2] > height)


def picture(env: Any) -> Tensor:
    """(N, H, W, 3) uint8 whose colour is the cube's position."""
    colour = (100.0 * pick_terms.cube_pos(env)).clamp(0, 255).to(torch.uint8)
    return colour[:, None, None, :].expand(-1, HEIGHT, WIDTH, 3)


def distance(env: Any) -> Tensor:
    """(N, H, W, 1) metres: the hand's height."""
    return pick_terms.eef_pos(env)[:, 2][:, None, None, None].expand(-1, HEIGHT, WIDTH, 1)


def nothing(env: Any, env_ids: Tensor) -> None:
    """An event that happens while slots act."""


@configclass
class CamerasCfg(ObservationGroupCfg):
    """A group of images."""

    front = ObservationTermCfg(func=picture)
    depth = ObservationTermCfg(func=distance)

    def __post_init__(self) -> None:
        self.concatenate_terms = False


@configclass
class OddEnvCfg(PickIkRelEnvCfg):
    """Slots 3 m apart."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.scene.env_spacing = 3.0
        self.observations.rgb = CamerasCfg()
        self.observations.policy.concatenate_terms = True
        self.observations.policy.enable_corruption = True
        self.observations.policy.cube_pos.noise = GaussianNoiseCfg(std=0.5)
        self.events.push = EventTermCfg(func=nothing, mode="interval", interval_range_s=(100.0, 100.0))
        self.terminations.success.func = Picked
        self.terminations.success.params = {"height": 0.05}


def decimate(cfg: Any, decimation: int) -> None:
    """A function for `env.configure`."""
    cfg.decimation = decimation


gymnasium.register(
    id=ID,
    entry_point=f"{__name__}:OddEnv",
    kwargs={"env_cfg_entry_point": f"{__name__}:OddEnvCfg"},
    disable_env_checker=True,
)
