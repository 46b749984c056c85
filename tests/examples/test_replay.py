import json

import pytest

from examples.replay import replay


@pytest.mark.slow
def test_episodes_end_in_success_again_in_the_simulator_that_made_them(run):
    folder = run("recorder=sync", "env=kinematic", "task=stack", "num_demos=5", "env.num_envs=3")
    assert replay(folder) == [True] * 5
    path = folder / "run.json"
    text = json.loads(path.read_text())
    text["config"]["env"]["lag"] = 0.9
    path.write_text(json.dumps(text))
    assert replay(folder) == [False] * 5, "another simulator"


def test_a_folder_without_a_dataset_is_one_line(tmp_path):
    with pytest.raises(SystemExit, match=r"no run\.json"):
        replay(tmp_path)
    record = {"dataset": None, "exit_reason": "max_attempts"}
    (tmp_path / "run.json").write_text(json.dumps(record))
    with pytest.raises(SystemExit, match=r"recorded no dataset \(it ended by: max_attempts"):
        replay(tmp_path)
    record["dataset"] = {"root": str(tmp_path / "gone"), "repo_id": "local/pick"}
    (tmp_path / "run.json").write_text(json.dumps({**record, "config": {"dataset": {}}}))
    with pytest.raises(SystemExit, match="gone: the run's dataset is not there"):
        replay(tmp_path)
