import re
from pathlib import Path

import pytest

from mimicpipe.datagen.subtask import SubTaskConfig
from mimicpipe.errors import ConfigError
from mimicpipe.tools.config_keys import field_docs, group_section, run_section, tasks_section

CONF = Path(__file__).parents[2] / "conf"


def row(section: str, key: str) -> list[str]:
    (line,) = [line for line in section.splitlines() if line.startswith(f"| `{key}` |")]
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_a_row_has_default_type_and_comment():
    assert row(run_section(CONF), "num_demos")[1:3] == ["`100`", "an integer >= 1 and <= 9007199254740991"]
    section = group_section(CONF, "env")
    assert row(section, "env.image_size") == [
        "`env.image_size`", "mujoco, mujoco_warp", "`[128,128]`", "a list of 2 integers >= 1", "height, width",
    ]  # fmt: skip
    assert row(section, "env.num_envs")[1] == "all"
    assert row(run_section(CONF), "dataset.overwrite")[1:] == [
        "`false`",
        "true or false",
        "replace a dataset that is there",
    ]


def test_every_key_of_every_option_is_there():
    for group in ("env", "pool", "recorder", "tracker"):
        section = group_section(CONF, group)
        for file in (CONF / group).glob("*.yaml"):
            keys = set(re.findall(r"^([a-z]\w*):", file.read_text(), re.MULTILINE)) - {"defaults"}
            assert all(f"`{group}.{key}`" in section for key in keys)


def test_defaults_that_differ_stand_side_by_side():
    section = group_section(CONF, "task")
    names = sorted((path.stem for path in (CONF / "task").glob("*.yaml")), key=lambda name: (name != "pick", name))
    values = {name: "${env.task}" if name == "isaaclab" else name for name in names}
    assert row(section, "task.name")[2] == ", ".join(f"`{values[name]}` ({name})" for name in names)
    assert section.startswith("* `task=pick` (default): ")


def test_the_table_of_tasks_has_objects_in_order_and_a_picture():
    rows = {line.split("`")[1]: line for line in tasks_section(CONF, "docs/tasks").splitlines()[2:]}
    assert set(rows) == {path.stem for path in (CONF / "task").glob("*.yaml")} - {"isaaclab"}
    assert "| D0, D1 | cubeA, cubeB, cubeC, cubeA |" in rows["stack_three"]
    assert "| left: tray, tray; right: tray, tray |" in rows["bimanual_lift"]
    for name, line in rows.items():
        assert f'src="docs/tasks/{name}.png"' in line


def test_meanings_of_subtasks_come_from_their_class():
    docs = field_docs(SubTaskConfig)
    assert docs["num_fixed_steps"] == "Steps to wait at the segment's first pose."
    section = group_section(CONF, "task")
    assert row(section, "num_fixed_steps")[-1] == docs["num_fixed_steps"]
    assert row(section, "task.datagen.settle_steps")[2:4] == ["`0`", "an integer >= 0"]


def test_an_option_says_what_it_is(tmp_path):
    (tmp_path / "env").mkdir()
    (tmp_path / "config.yaml").write_text("defaults:\n  - env: mine\n")
    (tmp_path / "env" / "mine.yaml").write_text("num_envs: 1\n")
    with pytest.raises(ConfigError, match="begin with a comment"):
        group_section(tmp_path, "env")
    with pytest.raises(ConfigError, match="no group nope"):
        group_section(CONF, "nope")
