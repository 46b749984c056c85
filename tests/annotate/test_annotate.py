import json
import sys
from pathlib import Path

import pytest
import torch
from raw_demos import CUT, NO_STATE, OPEN_HAND, without_signals, write_raw

from mimicpipe.annotate.candidates import Candidate
from mimicpipe.annotate.verdict import unsuccessful
from mimicpipe.pools.hdf5 import read_demos
from mimicpipe.preflight import BUNDLED_DEMOS
from mimicpipe.tools import annotate

sys.path.insert(0, str(Path(__file__).parents[1]))

from in_process import run_main

FAST = ["tracker=none", "preview=false", "recorder=none", "env.num_envs=2"]


def demos_of(path):
    return read_demos(
        path,
        eef_names=None,
        object_names=None,
        signal_names=None,
        start_signal_names=None,
        gripper_from_actions=None,
    ).demos


def annotated(capsys, *arguments):
    code = annotate.main([str(argument) for argument in arguments])
    said = capsys.readouterr()
    return code, said.out.splitlines(), said.err


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    """Three stacks of env=kinematic, recorded."""
    folder = tmp_path_factory.mktemp("recorded") / "run"
    arguments = ["env=kinematic", "task=stack", "num_demos=3", "tracker=none", "preview=false"]
    assert run_main([*arguments, f"hydra.run.dir={folder}"], folder.parent) == 0
    return folder / "dataset"


def test_the_tasks_signals_are_found_by_playing(tmp_path, capsys):
    """From actions and initial states alone, the signals of the bundled demos come out as they were recorded."""
    raw, out = write_raw(tmp_path / "raw.hdf5", "stack"), tmp_path / "out.hdf5"
    code, lines, _ = annotated(capsys, raw, "task=stack", "--out", out)
    assert code == 1
    bundled = {demo.name: demo for demo in demos_of(BUNDLED_DEMOS / "stack.hdf5")}
    found = demos_of(out)
    assert len(found) == 2
    for demo, original in zip(found, (bundled["demo_0"], bundled["demo_4"]), strict=True):
        assert torch.equal(demo.actions, original.actions)
        for name, pose in demo.info.object_poses.items():
            torch.testing.assert_close(pose, original.info.object_poses[name], atol=1e-6, rtol=0.0)
        grasp = demo.info.subtask_term_signals["grasp"]
        assert torch.equal(grasp, original.info.subtask_term_signals["grasp"])
        for name, signal in original.info.subtask_start_signals.items():
            assert torch.equal(demo.info.subtask_start_signals[name], signal)
        assert demo.states is not None
        assert demo.states.shape[0] == len(demo.actions)
    said = {line.split(": ", 1)[0]: line for line in lines}
    assert "rejected: not successful: the task's condition is never met" in said[f"demo_{CUT}"]
    assert "rejected: not successful" in said[f"demo_{OPEN_HAND}"]
    assert "rejected: initial_state: none recorded" in said[f"demo_{NO_STATE}"]
    assert "subtasks end: grasp" in said["demo_0"]
    assert "skills begin: reach" in said["demo_0"]


def test_rules_do_without_simulator_and_signals(tmp_path, capsys):
    """The ends by gripper and distance are near to those of the task, and what they give can be generated from."""
    raw, out = without_signals(tmp_path / "raw.hdf5", "stack"), tmp_path / "out.hdf5"
    code, lines, error = annotated(capsys, raw, "task=stack", "env=kinematic", "--out", out)
    assert code == 2
    assert all("rejected: initial_state: none recorded" in line for line in lines)
    assert "none of 3 demos can be used" in error
    code, _, _ = annotated(capsys, raw, "task=stack", "env=kinematic", "--out", out, "--rules", "--settle", 6)
    assert code == 0
    bundled = demos_of(BUNDLED_DEMOS / "stack.hdf5")[:3]
    for demo, original in zip(demos_of(out), bundled, strict=True):
        ours, theirs = (int(d.info.subtask_term_signals["grasp"].long().argmax()) for d in (demo, original))
        assert 0 <= theirs - ours <= 15
        assert set(demo.info.subtask_start_signals) == {"reach", "carry"}
    run = tmp_path / "run"
    arguments = ["env=kinematic", "task=stack", f"pool.path={out}", "num_demos=4", "max_attempts=8"]
    assert run_main([*arguments, f"hydra.run.dir={run}", *FAST], tmp_path) == 0
    assert json.loads((run / "run.json").read_text())["exit_reason"] == "num_demos"


def test_a_rule_that_finds_nothing_says_what_it_looked_for(tmp_path, capsys):
    raw = without_signals(tmp_path / "raw.hdf5", "stack", 1)
    arguments = [raw, "task=stack", "env=kinematic", "--out", tmp_path / "out.hdf5", "--rules"]
    code, (line,), _ = annotated(capsys, *arguments, "--rule", "grasp=close,0.001")
    assert code == 2
    assert (
        "rejected: signal grasp: after step 0 the gripper does not close within 0.001 m of cubeA; panda comes" in line
    )
    assert not (tmp_path / "out.hdf5").exists()
    # Without a skill's start a demo is good for all generators but one.
    code, lines, _ = annotated(capsys, *arguments, "--skill", "0.0001")
    assert code == 0
    assert "demo_0: not for generator=skillgen: subtask_start_signals/reach: no such signal" in lines[1]


def test_a_dataset_is_annotated(dataset, tmp_path, capsys):
    out = tmp_path / "out.hdf5"
    code, lines, _ = annotated(capsys, dataset, "task=stack", "env=kinematic", "--out", out)
    assert (code, len(demos_of(out))) == (0, 3)
    assert f"  python run.py task=stack env=kinematic pool.path={out}" in lines
    run = tmp_path / "run"
    arguments = ["env=kinematic", "task=stack", f"pool.path={out}", "num_demos=3", "generator=replay"]
    assert run_main([*arguments, f"hydra.run.dir={run}", *FAST], tmp_path) == 0
    assert json.loads((run / "run.json").read_text())["exit_reason"] == "num_demos"


def test_a_demo_that_is_not_what_it_says_is_not_asked_for_signals(tmp_path, capsys):
    """Poses and actions that do not belong together: played, it is another demo."""
    path = tmp_path / "demos.hdf5"
    path.write_bytes((BUNDLED_DEMOS / "pick.hdf5").read_bytes())
    import h5py

    with h5py.File(path, "r+") as file:
        file["data/demo_0/actions"][20:30, 0] = 1.0
    code, lines, _ = annotated(capsys, path, "task=pick", "--out", tmp_path / "out.hdf5")
    assert code == 1
    (line,) = (line for line in lines if "rejected" in line)
    assert line.startswith("demo_0: rejected: played in this env, panda is 0.")
    assert "m from where it was recorded at step 2" in line


@pytest.mark.parametrize(
    ("success", "reason"),
    [
        ([0] * 20, "never met"),
        ([0] * 5 + [1] * 10 + [0] * 5, "met until step 14, and lost before the demo ends"),
        ([0] * 16 + [1] * 4, r"met from step 16 on, for 4 steps; it must hold for 10"),
        ([1] * 4, r"met from step 0 on, for 4 steps; it must hold for 10"),
        ([0] * 10 + [1] * 10, None),
        ([1] * 20, None),
    ],
)
def test_why_a_demo_is_no_success(success, reason):
    (demo, *_) = demos_of(BUNDLED_DEMOS / "pick.hdf5")
    found = unsuccessful(Candidate(demo, torch.tensor(success, dtype=torch.bool)), 10)
    assert (found is None) if reason is None else (found is not None and reason in found)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing.hdf5", "--out", "x.hdf5"], "nothing.hdf5: no such file or dataset"),
        (["here.hdf5", "--out", "here.hdf5"], "--out here.hdf5: is the file that is read"),
        (["here.hdf5", "--out", "there.hdf5"], "--out there.hdf5: exists; name another file, or add --overwrite"),
        (["here.hdf5", "--out", "x.hdf5", "num_demos=3"], "num_demos=3: annotate takes keys of task, env"),
        (["here.hdf5", "--out", "x.hdf5", "task=pikc"], "task=pikc: no such option; did you mean pick?"),
        (["here.hdf5", "--out", "x.hdf5", "--rule", "grasp=close"], "--rule grasp=close: is for --rules"),
        (["here.hdf5", "--out", "x.hdf5", "--rules", "--rule", "grasp"], "--rule grasp: expected SIGNAL=KIND"),
        (["here.hdf5", "--out", "x.hdf5", "--rules", "--rule", "grasp=near,-1"], "-1 is no distance in metres"),
        (["here.hdf5", "--out", "x.hdf5", "--near", "0"], "--near 0.0: expected a distance"),
        (["here.hdf5", "--out", "x.hdf5"], "here.hdf5: is empty"),
    ],
)
def test_wrong_arguments_are_one_line(tmp_path, monkeypatch, capsys, arguments, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "here.hdf5").touch()
    (tmp_path / "there.hdf5").touch()
    code, lines, error = annotated(capsys, *arguments)
    assert (code, lines) == (2, [])
    assert message in error
    assert error.count("\n") == 1
    assert not (tmp_path / "x.hdf5").exists()
