"""Nothing is read from outside of a file, nothing is unpickled, and no name or text leads out of a dataset's root."""

import ast
import os
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch
from test_hdf5_recorder import demo_of, record

import mimicpipe
from mimicpipe.errors import ConfigError, SourceDemoError
from mimicpipe.pools.hdf5_file import read_demos
from mimicpipe.recorders.digest import digest
from mimicpipe.recorders.finished_hdf5 import FinishedHdf5
from mimicpipe.recorders.sharded import ShardedRecorder

UNPICKLING = {"pickle", "cPickle", "_pickle", "dill", "cloudpickle", "joblib", "shelve", "marshal"}


@pytest.fixture
def path(tmp_path):
    record(tmp_path / "set", [demo_of(0), demo_of(1)])
    return tmp_path / "set" / "demos.hdf5"


@pytest.fixture
def secret(tmp_path):
    """A file that no other file may lead to."""
    with h5py.File(tmp_path / "secret.hdf5", "w") as file:
        file["actions"] = np.full((6, 7), 42.0, np.float32)
        file["obs/state"] = np.full((6, 3), 42.0, np.float32)
    return tmp_path / "secret.hdf5"


def external_link(demo, secret):
    return h5py.ExternalLink(str(secret), "/actions")


def soft_link_to_an_external_one(demo, secret):
    demo["elsewhere"] = h5py.ExternalLink(str(secret), "/actions")
    return h5py.SoftLink(f"{demo.name}/elsewhere")


def external_storage(demo, secret):
    raw = secret.with_suffix(".raw")
    raw.write_bytes(bytes(6 * 7 * 4))
    return demo.create_dataset("raw", (6, 7), "f4", external=[(str(raw), 0, h5py.h5f.UNLIMITED)])


def virtual_storage(demo, secret):
    layout = h5py.VirtualLayout((6, 7), "f4")
    layout[...] = h5py.VirtualSource(str(secret), "actions", (6, 7))
    return demo.create_virtual_dataset("virtual", layout)


def objects(demo, secret):
    del secret
    return demo.create_dataset("objects", data=np.array([b"cos\nsystem\n"] * 6, object), dtype=h5py.string_dtype())


def references(demo, secret):
    del secret
    return demo.create_dataset("references", data=np.array([demo.ref] * 6, object), dtype=h5py.ref_dtype)


@pytest.mark.parametrize(
    "made", [external_link, soft_link_to_an_external_one, external_storage, virtual_storage, objects, references]
)
@pytest.mark.parametrize("place", ["actions", "obs/datagen_info/eef_pose/arm", "obs/state"])
def test_what_leads_out_or_holds_objects_is_refused_by_every_reader(path, secret, made, place):
    with h5py.File(path, "a") as file:
        demo = file["data/demo_0"]
        leads = made(demo, secret)
        del demo[place]
        demo[place] = leads
    message = "never followed|never opened|expected numbers"
    with pytest.raises(SourceDemoError, match=message):
        read_demos(
            path, eef_names=None, object_names=None, signal_names=None, gripper_from_actions=None, observations=True
        )
    with pytest.raises(ConfigError, match=message):
        digest(path)
    with pytest.raises((ConfigError, SourceDemoError), match=message):
        list(FinishedHdf5(path.parent))


def test_a_group_that_holds_itself_has_an_end(path):
    with h5py.File(path, "a") as file:
        file["data/demo_0/obs/again"] = file["data/demo_0/obs"]
    with pytest.raises(ConfigError, match="a link to itself"):
        digest(path)


def test_no_module_loads_pickles():
    """By name: of modules that can, and of functions that do it if asked."""
    for file in Path(mimicpipe.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            names = set()
            if isinstance(node, ast.Import):
                names = {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                names = {(node.module or "").split(".")[0]}
            assert not names & UNPICKLING, file
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                called = ast.unparse(node.func)
                assert called not in ("torch.load", "np.load", "numpy.load", "pd.read_pickle", "yaml.load"), file
                assert not any(keyword.arg == "allow_pickle" for keyword in node.keywords), file


@pytest.mark.parametrize("task", ["../../escape", "/etc/passwd", "..", "a\0b", "~/x", "${HOME}", "'; rm -rf /"])
def test_a_task_is_never_a_path(tmp_path, features, make_episode, task):
    recorder = ShardedRecorder(tmp_path / "lerobot" / "inner" / "set", "local/test", 20, features)
    recorder.commit(make_episode(0, task=task))
    recorder.finalize()
    record(tmp_path / "hdf5" / "inner" / "set", [demo_of(0, task=task)])
    with h5py.File(tmp_path / "hdf5" / "inner" / "set" / "demos.hdf5") as file:
        assert file["data/demo_0"].attrs["task"].decode() == task
    assert set(os.listdir(tmp_path)) == {"lerobot", "hdf5"}
    for name in ("lerobot", "hdf5"):
        assert os.listdir(tmp_path / name) == ["inner"]
        assert os.listdir(tmp_path / name / "inner") == ["set"]


@pytest.mark.parametrize("name", ["annotation./x", "annotation.\0", "annotation.a/../../b"])
def test_a_column_that_an_episode_brings_is_never_a_path(tmp_path, features, make_episode, name):
    recorder = ShardedRecorder(tmp_path / "set", "local/test", 20, features)
    episode = make_episode(0)
    episode.columns[name] = torch.zeros(5, 1)
    with pytest.raises(ConfigError, match="a name has letters"):
        recorder.commit(episode)
    assert recorder.finalize() is None
    demo = demo_of(0)
    demo.columns[name] = torch.zeros(6, 1)
    with pytest.raises(ConfigError, match="a name has letters"):
        record(tmp_path / "hdf5", [demo])
    assert os.listdir(tmp_path) == []
