"""A camera above the table, drawn by Newton's own ray tracer, which needs no Isaac Sim and no GPU."""

from typing import Any

from isaaclab.envs import mdp
from isaaclab.managers import ObservationGroupCfg, ObservationTermCfg, SceneEntityCfg
from isaaclab.sensors import CameraCfg
from isaaclab.sim import PinholeCameraCfg
from isaaclab.utils import configclass
from isaaclab_newton.renderers import NewtonWarpRendererCfg

HEIGHT, WIDTH = 24, 32
ABOVE = 0.8
"""Metres from the table."""
_DOWN = (0.0, 0.5**0.5, 0.0, 0.5**0.5)
"""xyzw: forward, +X, becomes -Z."""


@configclass
class CamerasCfg(ObservationGroupCfg):
    """A group of images."""

    above = ObservationTermCfg(
        func=mdp.image_rgb, params={"sensor_cfg": SceneEntityCfg("above"), "data_type": "rgb", "normalize": False}
    )
    depth = ObservationTermCfg(
        func=mdp.image_depth,
        params={"sensor_cfg": SceneEntityCfg("above"), "data_type": "distance_to_image_plane", "normalize": False},
    )

    def __post_init__(self) -> None:
        self.concatenate_terms = False


def add_camera(cfg: Any) -> None:
    """A function for `env.configure`."""
    cfg.scene.above = CameraCfg(
        prim_path="{ENV_REGEX_NS}/above",
        height=HEIGHT,
        width=WIDTH,
        data_types=["rgb", "distance_to_image_plane"],
        renderer_cfg=NewtonWarpRendererCfg(),
        spawn=PinholeCameraCfg(focal_length=18.0, clipping_range=(0.05, 5.0)),
        offset=CameraCfg.OffsetCfg(pos=(0.5, 0.0, ABOVE), rot=_DOWN, convention="world"),
    )
    cfg.observations.cameras = CamerasCfg()
