"""experiments/gpu: what was not measured says so, and the whole script at a toy size on the CPU."""

import json
from importlib.util import find_spec

import pytest
import torch

from experiments.gpu import __main__ as cli
from experiments.gpu.report import NOT_MEASURED, render

MACHINE = {"cpu": "x", "cpus": 1, "system": "y", "versions": {"python": "3"}, "git": None}
ROW = {
    "num_envs": 4096, "slots_stepped": 0.9, "raw_env_steps_per_s": 1000.0, "ratio": 0.95, "device_memory_mb": 2048.0,
    **{name: {"env_steps_per_s": 950.0, "demos_per_hour": 31.0} for name in ("none", "async", "sharded")},
}  # fmt: skip
AGREES = {
    "device": "cuda:0", "num_envs": 64, "eef_mm": 0.25, "cube_mm": 0.5, "same_bits_twice": True,
    "same_bits_alone": False,
}  # fmt: skip


def test_figures_of_a_gpu_are_shown_and_sizes_without_one_are_not_measured() -> None:
    results = {"gpu": "Some GPU", "machine": MACHINE, "agreement": [AGREES], "speed": [ROW]}
    lines = render(results, (64, 4096)).splitlines()
    assert any(line.startswith("On Some GPU. x, 1 CPUs") for line in lines)
    assert "| 64 envs on cuda:0 | 0.2500 | 0.5000 | yes | no |" in lines
    assert "| 64 | " + " | ".join([NOT_MEASURED] * 7) + " |" in lines
    assert "| 4096 | 1,000 | 950 | 0.950 (goal 0.90) | 31 | 31 | 31 | 2,048 |" in lines


def test_figures_of_a_cpu_are_never_shown() -> None:
    text = render({"gpu": None, "machine": MACHINE, "agreement": [AGREES], "speed": [ROW]}, (4096,))
    assert "950" not in text
    assert "0.2500" not in text
    assert text.count(NOT_MEASURED) == 4 + 7


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
@pytest.mark.parametrize(
    ("arguments", "code", "begins"), [([], 0, "not measured: "), (["--device", "cuda:0"], 2, "error: ")]
)
def test_without_a_gpu_nothing_is_written(tmp_path, capsys, arguments, code, begins) -> None:
    assert cli.main([*arguments, "--out", str(tmp_path)]) == code
    assert not list(tmp_path.iterdir())
    error = capsys.readouterr().err
    assert error.startswith(begins)
    assert error.count("\n") == 1


@pytest.mark.warp
@pytest.mark.timeout(600)
@pytest.mark.skipif(find_spec("mujoco_warp") is None, reason="needs the extra mujoco_warp")
def test_whole_script_at_a_toy_size_on_the_cpu(tmp_path) -> None:
    assert cli.main(["2", "--smoke", "--out", str(tmp_path)]) == 0
    results = json.loads((tmp_path / "gpu.json").read_text())
    (agreement,), (row,) = results["agreement"], results["speed"]
    assert agreement["eef_mm"] < 2.0
    assert agreement["same_bits_twice"]
    assert agreement["same_bits_alone"]
    assert row["num_envs"] == row["attempts"] == 2
    assert [row[name]["demos"] for name in ("none", "async", "sharded")] == [2, 2, 2]
    assert row["raw_env_steps_per_s"] > 0
    assert (tmp_path / "gpu.md").read_text().count(NOT_MEASURED) == 4 + 7
