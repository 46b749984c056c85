"""An env of one's own that observes what the bundled ones do not: depth, text, matrices, scalars, contacts."""

import torch

from mimicpipe.envs.base import Feature
from mimicpipe.envs.kinematic import KinematicEnv
from mimicpipe.envs.text import encode_text

SIDE, WIDTH = 16, 12


class OwnFeaturesEnv(KinematicEnv):
    """The kinematic env with more observations, each a function of the eef's pose."""

    def __init__(self, *args, **arguments):
        super().__init__(*args, **arguments)
        self.observation_features = {
            **self.observation_features,
            "observation.pose": Feature("float32", (4, 4)),
            "observation.height": Feature("float64", ()),
            "observation.grid": Feature("float32", (5, 4, 3)),
            "observation.low": Feature("bool", ()),
            "observation.millimetres": Feature("int64", (3,)),
            "observation.phase": Feature("string", (WIDTH,)),
            "observation.images.depth": Feature("depth", (SIDE, SIDE, 1)),
        }

    def observe(self, env_ids=None):
        pose = self.get_robot_eef_pose(self.eef_names[0], env_ids)
        place = pose[:, :3, 3]
        low = place[:, 2] < 0.15
        millimetres = (place * 1000).round().long()
        row = torch.arange(SIDE)
        depth = millimetres[:, 2, None, None] + row[:, None] * SIDE + row
        return {
            **super().observe(env_ids),
            "observation.pose": pose.clone(),
            "observation.height": place[:, 2].double(),
            "observation.grid": place[:, None, None, :].expand(-1, 5, 4, 3).contiguous(),
            "observation.low": low,
            "observation.millimetres": millimetres,
            "observation.phase": encode_text(["tief — 低" if value else "high" for value in low.tolist()], WIDTH),
            "observation.images.depth": depth[..., None].to(torch.uint16),
        }


class NoTextEnv(OwnFeaturesEnv):
    """The same without text."""

    def __init__(self, *args, **arguments):
        super().__init__(*args, **arguments)
        del self.observation_features["observation.phase"]

    def observe(self, env_ids=None):
        found = super().observe(env_ids)
        del found["observation.phase"]
        return found
