"""A small dataset that a recorder of mimicpipe has written."""

import pytest
from camera_episodes import FEATURES, small_episode

from mimicpipe.recorders.async_lerobot import AsyncLeRobotRecorder


@pytest.fixture
def recorded_dataset(tmp_path):
    root = tmp_path / "recorded"
    recorder = AsyncLeRobotRecorder(
        root, "local/recorded", 20, FEATURES, robot_type="panda", use_videos=False, run_info={"task": "pick", "seed": 3}
    )
    for number in range(3):
        recorder.commit(small_episode(number, 4 + number))
    assert recorder.finalize() == root
    return root
