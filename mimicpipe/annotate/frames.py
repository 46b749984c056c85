"""Pictures of a demo for people who mark it: rendered, or drawn from poses where env or machine cannot render."""

import io

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image

from mimicpipe.annotate.candidates import Candidate
from mimicpipe.envs.base import FrameRenderer, MimicEnv
from mimicpipe.errors import ConfigError
from mimicpipe.report.look_back import Played, box_sizes
from mimicpipe.report.sample import Take
from mimicpipe.report.schematic import Schematic

SIZE = (384, 512)
"""Height and width, pixels."""
_QUALITY = 80


class DemoPictures:
    """Makes the pictures of demos, in the thread that makes it: an OpenGL context belongs to one.

    Args:
        env: what renders.

    Attributes:
        note: why pictures are drawings, empty where they are not.
    """

    def __init__(self, env: MimicEnv) -> None:
        self._env = env
        self._renderer: FrameRenderer | None = None
        self.note = "this env does not render"
        try:
            self._renderer = env.frame_renderer(SIZE)
        except ConfigError as error:
            self.note = str(error)
        if self._renderer is not None:
            self.note = ""

    def jpegs(self, candidate: Candidate) -> list[bytes]:
        """One for each of T steps, before its action, and one for what follows the last."""
        if self._renderer is not None and candidate.states is not None:
            # One by one: a demo's frames together are larger than its JPEGs by far.
            return [_jpeg(self._renderer.render(state[None].numpy())[0]) for state in candidate.states]
        info = candidate.demo.info
        played = Played(
            take=Take(0, True, "", torch.zeros(0, dtype=torch.float64), candidate.demo.actions),
            states=[np.zeros(0)] * info.length,
            eefs={eef: list(pose[:, :3, 3].double().numpy()) for eef, pose in info.eef_pose.items()},
            objects={name: list(pose.double().numpy()) for name, pose in info.object_poses.items()},
        )
        drawing = Schematic([played], box_sizes(self._env), SIZE)
        frames = [_jpeg(drawing.render(played, step)) for step in range(info.length)]
        return [*frames, frames[-1]]

    def close(self) -> None:
        """Free what renders."""
        if self._renderer is not None:
            self._renderer.close()


def _jpeg(frame: npt.NDArray[np.uint8]) -> bytes:
    out = io.BytesIO()
    Image.fromarray(frame).save(out, "JPEG", quality=_QUALITY)
    return out.getvalue()
