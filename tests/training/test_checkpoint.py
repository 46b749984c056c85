"""Checkpoints: what is written is what is read, in one step, and damaged ones are refused in a line."""

import json
from dataclasses import asdict

import hydra.version
import numpy as np
import pytest
import torch
from toy_demos import toy_demos

from experiments.harness import compose
from mimicpipe.errors import ConfigError
from mimicpipe.training import checkpoint
from mimicpipe.training.checkpoint import WEIGHTS, check_matches, load_bc, notes_of, read_notes, save_bc
from mimicpipe.training.fit import BcSettings, fit
from mimicpipe.training.kinds import NOTES

SETTINGS = BcSettings(hidden=8, depth=1, chunk=3, executed=2, modes=2, steps=10, batch=8)


@pytest.fixture(scope="module")
def made():
    hydra.version.setbase("1.3")
    demos = toy_demos(seeds=(11, 12))
    fitted = fit(demos, [0, 1], SETTINGS)
    config = compose("env=kinematic", "tracker=none", "recorder=none")
    notes = notes_of("bc", config, demos, {"settings": asdict(SETTINGS), "seed": 1, "losses": fitted.losses[1]})
    return fitted, notes


@pytest.fixture
def folder(made, tmp_path):
    fitted, notes = made
    save_bc(tmp_path / "policy", fitted, 1, notes)
    return tmp_path / "policy"


def test_what_is_written_is_read(made, folder):
    fitted, notes = made
    read = read_notes(folder)
    assert asdict(read) == json.loads(json.dumps(asdict(notes)))
    assert read.run_config().hash() == notes.run_config().hash()
    assert read.dataset == {"episodes": 12, "frames": 240, "longest": 20, "run_seeds": [0], "attempt_seeds": [11, 12]}
    policy = load_bc(folder, read)
    seen = {"observation.state": torch.tensor([[0.4, -0.2]])}
    slot, seed, step = np.array([0]), np.array([5]), np.array([0])
    again = load_bc(folder, read)
    assert torch.equal(policy.act(slot, seed, step, seen), again.act(slot, seed, step, seen))
    for (weight, bias), (w, b) in zip(fitted.layers, policy._layers, strict=True):
        assert np.array_equal(weight[1].numpy(), w)
        assert np.array_equal(bias[1, 0].numpy(), b)


def test_it_appears_in_one_step_or_not_at_all(made, tmp_path, monkeypatch):
    fitted, notes = made

    def fail(*_):
        raise OSError("no space left")

    monkeypatch.setattr(checkpoint, "write_notes", fail)
    with pytest.raises(OSError, match="no space left"):
        save_bc(tmp_path / "policy", fitted, 0, notes)
    assert list(tmp_path.iterdir()) == []


def test_what_is_there_is_not_overwritten(made, folder):
    fitted, notes = made
    with pytest.raises(ConfigError, match="is there already"):
        save_bc(folder, fitted, 0, notes)
    assert sorted(path.name for path in folder.iterdir()) == [NOTES, WEIGHTS]


def damage(folder, what):
    if what == "no notes":
        (folder / NOTES).unlink()
    elif what == "half of the notes":
        (folder / NOTES).write_text((folder / NOTES).read_text()[:-30])
    elif what == "another format":
        (folder / NOTES).write_text((folder / NOTES).read_text().replace('"format": 1', '"format": 2'))
    elif what == "no seeds":
        (folder / NOTES).write_text((folder / NOTES).read_text().replace('"run_seeds"', '"seed"'))
    elif what == "no weights":
        (folder / WEIGHTS).unlink()
    elif what == "half of the weights":
        (folder / WEIGHTS).write_bytes((folder / WEIGHTS).read_bytes()[:-40])
    else:
        (folder / NOTES).write_text((folder / NOTES).read_text().replace('"hidden": 8', '"hidden": 9'))


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("no notes", "no checkpoint"),
        ("half of the notes", "cannot be read"),
        ("another format", "format 2"),
        ("no seeds", "dataset has no run_seeds"),
        ("no weights", "cannot be read"),
        ("half of the weights", "cannot be read"),
        ("another width", "belong to different policies"),
    ],
)
def test_a_damaged_one_is_a_line(folder, what, said):
    damage(folder, what)
    with pytest.raises(ConfigError, match=said):
        load_bc(folder, read_notes(folder))


def test_another_simulator_is_refused(made):
    _, notes = made
    names = {"observation.state": ("a", "b"), "observation.more": ("c",)}
    check_matches(notes, names, ("da", "db"))
    with pytest.raises(ConfigError, match=r"trained with action = da, db; the simulator has da, dc"):
        check_matches(notes, names, ("da", "dc"))
    with pytest.raises(ConfigError, match=r"observation\.state = a, b; the simulator has no such column"):
        check_matches(notes, {}, ("da", "db"))
