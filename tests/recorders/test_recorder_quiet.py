"""One process of its own that records: silent, offline, the same bytes, and nothing left behind."""

import filecmp
import os
import subprocess
import sys
from pathlib import Path

import pytest

from mimicpipe.recorders.lerobot import LeRobotRecorder

# The first test of a process waits for the import of lerobot, which is slow on a busy machine.
pytestmark = pytest.mark.timeout(180)

SCRIPT = """
import sys

def no_network(event, arguments):
    if event in ("socket.connect", "socket.getaddrinfo"):
        raise RuntimeError(f"{event}: {arguments}")

sys.addaudithook(no_network)

from pathlib import Path

sys.path.insert(0, sys.argv[1])
from small_episodes import CAMERAS, FEATURES, episode_of

from mimicpipe.recorders.async_lerobot import AsyncLeRobotRecorder

assert not {"lerobot", "datasets", "av", "pyarrow", "pandas"} & set(sys.modules)
cameras = FEATURES | CAMERAS
recorders = [
    AsyncLeRobotRecorder("plain", "local/test", 20, FEATURES),
    AsyncLeRobotRecorder("images", "local/test", 20, cameras, use_videos=False, image_writer_threads=2),
    AsyncLeRobotRecorder("videos", "local/test", 20, cameras),
    AsyncLeRobotRecorder("abandoned/with videos", "local/test", 20, cameras),
    AsyncLeRobotRecorder("never used", "local/test", 20, cameras),
]
for attempt in range(3):
    recorders[0].commit(episode_of(attempt, 4, "pick", FEATURES))
    for recorder in recorders[1:4]:
        recorder.commit(episode_of(attempt, 4, "pick", cameras))
for recorder in recorders[:3]:
    recorder.finalize()
print("done")
"""


@pytest.fixture(scope="module")
def outcome(tmp_path_factory):
    folder = tmp_path_factory.mktemp("quiet")
    for name in ("work", "tmp", "home"):
        (folder / name).mkdir()
    kept = {key: value for key, value in os.environ.items() if key not in ("SVT_LOG", "HF_HUB_OFFLINE")}
    environment = kept | {"TMPDIR": str(folder / "tmp"), "HF_HOME": str(folder / "home"), "PYTHONHASHSEED": "7"}
    command = [sys.executable, "-W", "error", "-c", SCRIPT, str(Path(__file__).parent)]
    result = subprocess.run(
        command, cwd=folder / "work", env=environment, capture_output=True, text=True, timeout=150, check=False
    )
    return folder, result


def test_it_prints_nothing(outcome):
    _, result = outcome
    assert (result.returncode, result.stdout, result.stderr) == (0, "done\n", "")


def test_it_leaves_the_datasets_and_nothing_else(outcome):
    folder, _ = outcome
    assert sorted(os.listdir(folder / "work")) == ["abandoned", "images", "plain", "videos"]
    assert os.listdir(folder / "work" / "abandoned") == [".with videos.staging"]  # durable, to be recovered
    assert os.listdir(folder / "tmp") == []


def test_another_process_writes_the_same_bytes(outcome, tmp_path, features, make_episode):
    folder, _ = outcome
    recorder = LeRobotRecorder(tmp_path / "plain", "local/test", 20, features)
    for attempt in range(3):
        recorder.commit(make_episode(attempt, 4))
    recorder.finalize()
    other = folder / "work" / "plain"
    names = [str(path.relative_to(other)) for path in other.rglob("*") if path.is_file()]
    assert len(names) == 6
    assert filecmp.cmpfiles(other, tmp_path / "plain", names, shallow=False) == (names, [], [])
