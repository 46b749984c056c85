import json

from examples.replay import replay


def test_episodes_end_in_success_again_in_the_simulator_that_made_them(run):
    folder = run("recorder=sync", "env=kinematic", "task=stack", "num_demos=5", "env.num_envs=3")
    assert replay(folder) == [True] * 5
    path = folder / "run.json"
    text = json.loads(path.read_text())
    text["config"]["env"]["lag"] = 0.9
    path.write_text(json.dumps(text))
    assert replay(folder) == [False] * 5, "another simulator"
