"""What a config asks of this machine."""

import os
from pathlib import Path

import hydra.version
import pytest

from mimicpipe import preflight
from mimicpipe.cli import Job, check_command_line
from mimicpipe.errors import ConfigError
from mimicpipe.trackers.jsonl import JsonlTracker

CONF = Path(__file__).parents[1] / "conf"


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path, monkeypatch):
    hydra.version.setbase("1.3")
    monkeypatch.chdir(tmp_path)


def jobs(*argv: str) -> list[Job]:
    flags = [a for a in argv if a.startswith("-")]
    return check_command_line([*flags, "pool=scripted", *(a for a in argv if a not in flags)], CONF)


def fault(*argv: str) -> str:
    before = sorted(Path.cwd().rglob("*"))
    with pytest.raises(ConfigError) as raised:
        jobs(*argv)
    assert sorted(Path.cwd().rglob("*")) == before
    assert "\n" not in str(raised.value)
    return str(raised.value)


def test_constraints_of_the_task_are_checked():
    def constraint(*pair: str, **more: object) -> str:
        values = {"constraint_type": "sequential", **more, "eef_subtask_constraint_tuple": f"[{','.join(pair)}]"}
        return "{" + ",".join(f"{key}:{value}" for key, value in values.items()) + "}"

    def with_two_arms(*constraints: str) -> tuple[str, ...]:
        return "+task.subtasks.second=[{object_ref:cube}]", f"task.constraints=[{','.join(constraints)}]"

    (job,) = jobs(*with_two_arms(constraint("[panda,0]", "[second,0]", sequential_min_time_diff=3)))
    assert job.config.task["constraints"][0]["sequential_min_time_diff"] == 3
    assert job.config.task["constraints"][0]["coordination_scheme"] == "replay"
    assert "task.constraints[0].eef_subtask_constraint_tuple=[[panda,7],[second,0]]: panda has no subtask 7" in fault(
        *with_two_arms(constraint("[panda,7]", "[second,0]"))
    )
    assert "expected two subtasks" in fault(*with_two_arms(constraint("panda", "second")))
    assert "one of sequential, coordination" in fault(
        *with_two_arms(constraint("[panda,0]", "[second,0]", constraint_type="after"))
    )
    assert "expected an integer >= -1" in fault(
        *with_two_arms(constraint("[panda,0]", "[second,0]", sequential_min_time_diff=-2))
    )
    endless = fault(*with_two_arms(constraint("[panda,1]", "[second,0]"), constraint("[second,0]", "[panda,0]")))
    assert "task.constraints: can never be met, as" in endless
    assert "the order of panda" in endless


def test_nothing_is_made():
    assert len(jobs("-m", "env.num_envs=1,4,16", "recorder=sync,async", "num_demos=8")) == 6
    assert list(Path.cwd().iterdir()) == []


def test_each_job_has_an_output_folder_of_its_own():
    first, second = jobs("-m", "seed=1,2")
    assert [job.config.seed for job in (first, second)] == [1, 2]
    assert first.output_dir.parent == second.output_dir.parent
    assert (first.output_dir.name, second.output_dir.name) == ("0", "1")
    assert first.config.dataset.root == str(first.output_dir / "dataset")
    (alone,), (again,) = jobs("seed=1"), jobs("seed=1")
    assert alone.output_dir != again.output_dir


def test_every_combination_of_a_sweep_is_checked():
    assert "env.num_envs=-4" in fault("-m", "env.num_envs=1,-4", "seed=1,2")
    assert "task=pikc" in fault("-m", "task=pick,pikc")
    assert "two jobs" in fault("-m", "seed=1,2", "dataset.root=here")
    assert len(jobs("-m", "seed=1,2", "dataset.root='here/${hydra:job.num}'")) == 2
    assert "two jobs" in fault("-m", "seed=1,2", "hydra.sweep.subdir=same", "recorder=none")


def test_the_mode_may_come_from_the_config():
    assert len(jobs("hydra.mode=MULTIRUN", "seed=1,2")) == 2


def test_a_root_that_exists(tmp_path):
    root = tmp_path / "dataset"
    root.mkdir()
    (root / "thesis.tex").touch()
    message = fault(f"dataset.root={root}")
    assert f"dataset.root={root}: exists and is no LeRobot dataset" in message
    assert "overwrite" not in message
    assert "no LeRobot dataset" in fault(f"dataset.root={root}", "dataset.overwrite=true")
    assert jobs(f"dataset.root={root}", "recorder=none")
    (root / "meta").mkdir()
    (root / "meta" / "info.json").write_text("{}")
    message = fault(f"dataset.root={root}")
    assert f"dataset.root={root}: exists" in message
    assert "dataset.overwrite=true" in message
    assert jobs(f"dataset.root={root}", "dataset.overwrite=true")


def test_the_dataset_of_failed_attempts_has_a_root_of_its_own(tmp_path):
    (tmp_path / "d_failed").mkdir()
    assert jobs("dataset.root=d")
    assert f"dataset.root={tmp_path}/d_failed: exists" in fault("dataset.root=d", "recorder.save_failed=true")


def test_a_dangling_link_exists(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "gone")
    assert "exists" in fault("dataset.root=link")


def test_a_root_has_one_name(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    (job,) = jobs("dataset.root=link/../link/d")
    assert job.config.dataset.root == str(tmp_path / "real" / "d")
    assert "two jobs" in fault("-m", "dataset.root=real/d,link/d")
    (tmp_path / "real" / "d_failed").mkdir()
    assert f"{tmp_path}/real/d_failed: exists" in fault("dataset.root=link/d", "recorder.save_failed=true")


@pytest.mark.parametrize(("root", "words"), [("/", "root of the file system"), ("", "is empty")])
def test_a_root_that_is_no_name(root, words):
    for more in ("recorder.save_failed=false", "recorder.save_failed=true", "dataset.overwrite=true"):
        message = fault(f"dataset.root={root}", more)
        assert message.startswith(f"dataset.root={root}: ")
        assert words in message
    assert jobs(f"dataset.root={root}", "recorder=none")


@pytest.mark.parametrize("repo_id", ["a/b/c", "", "../x", "a b"])
def test_a_repo_id_that_the_hub_does_not_take(repo_id):
    assert fault(f"dataset.repo_id={repo_id!r}").startswith(f"dataset.repo_id={repo_id!r}: ")
    assert jobs(f"dataset.repo_id={repo_id!r}", "recorder=none")


@pytest.mark.parametrize("root", ["/proc/mimicpipe/dataset", "/dev/null/dataset", "file/dataset"])
def test_a_root_that_cannot_be_made(root):
    Path("file").touch()
    assert f"dataset.root={Path(root).absolute()}" in fault(f"dataset.root={root}")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_root_in_a_read_only_folder(tmp_path):
    locked = tmp_path / "locked"
    locked.mkdir(mode=0o500)
    assert "Permission denied" in fault(f"dataset.root={locked}/dataset")


def test_an_output_folder_that_cannot_be_made():
    assert "hydra.run.dir=/proc/mimicpipe" in fault("hydra.run.dir=/proc/mimicpipe")


@pytest.mark.parametrize("name", ["attempts.jsonl", "run.json"])
@pytest.mark.parametrize("recorder", ["none", "async"])
def test_an_output_folder_that_holds_a_run(name, recorder):
    Path("out").mkdir()
    Path("out", name).touch()
    asked = ("hydra.run.dir=out", f"recorder={recorder}")
    message = fault(*asked, "dataset.root=elsewhere")
    assert message.startswith("hydra.run.dir=")
    assert "holds a run; choose another folder, go on with that run (resume=" in message
    assert jobs(*asked, "dataset.overwrite=true")
    assert "holds a run" in fault("-m", "hydra.sweep.dir=.", "hydra.sweep.subdir=out", "seed=1")


def test_an_output_folder_that_a_run_is_writing_to():
    Path("out").mkdir()
    tracker = JsonlTracker(Path("out/metrics.jsonl"))
    assert "a run is writing there" in fault("hydra.run.dir=out", "dataset.overwrite=true")
    tracker.close({}, 0)
    assert jobs("hydra.run.dir=out")


def test_source_demos_that_are_not_there(tmp_path):
    assert "pool.path=nope.hdf5: no such file" in fault("pool=hdf5", "pool.path=nope.hdf5")
    (tmp_path / "own.yaml").touch()
    Path("broken.hdf5").write_bytes(b"\x89HDX" + bytes(600))
    assert "pool.path=broken.hdf5: is not an HDF5 file" in fault("pool=hdf5", "pool.path=broken.hdf5")
    assert jobs("pool=hdf5", "pool.path=broken.hdf5", "pool.on_error=skip")
    Path("behind.hdf5").write_bytes(bytes(1024) + b"\x89HDF\r\n\x1a\n")
    assert jobs("pool=hdf5", "pool.path=behind.hdf5")
    message = fault("pool=hdf5", "task.name=juggle")
    assert "no source demos come with task juggle" in message


def test_cuda_is_asked_of_the_driver(monkeypatch):
    monkeypatch.setattr(preflight, "cuda_device_count", lambda: None)
    assert "no NVIDIA driver" in fault("env.device=cuda:0")
    monkeypatch.setattr(preflight, "cuda_device_count", lambda: 0)
    assert "sees no GPU" in fault("env.device=cuda")
    monkeypatch.setattr(preflight, "cuda_device_count", lambda: 2)
    assert "cpu, cuda:0, cuda:1" in fault("env.device=cuda:2")
    assert jobs("env.device=cuda:1")


def test_the_driver_agrees_with_torch():
    import torch

    count = preflight.cuda_device_count()
    assert (count or 0) == torch.cuda.device_count()


def test_a_cluster_needs_ray(monkeypatch):
    monkeypatch.setattr(preflight, "find_spec", lambda name: None)
    assert "needs the extra cluster (ray not installed); get it with `make cluster` or pip" in fault("cluster=ray")
    assert jobs("cluster=none")


def test_what_workers_cannot_share_is_refused(monkeypatch):
    monkeypatch.setattr(preflight, "find_spec", lambda name: object())
    assert jobs("cluster=ray", "cluster.num_workers=3")[0].config.cluster["num_workers"] == 3
    assert "with pool=growing an attempt depends on those before it" in fault("cluster=ray", "pool=growing")
    assert "recorder=sync writes the dataset itself, so workers cannot share it" in fault(
        "cluster=ray", "recorder=sync"
    )
    assert "env.device=cuda: a worker sees the GPUs that Ray reserves" in fault("cluster=ray", "env.device=cuda")
    policy = ["generator=policy", "generator.checkpoint=x", "generator.device=cuda"]
    assert "generator.device=cuda: a worker sees the GPUs that Ray reserves" in fault("cluster=ray", *policy)
    assert "cluster.num_workers=0: expected an integer >= 1" in fault("cluster=ray", "cluster.num_workers=0")
    assert "cluster.num_worker: no such key" in fault("cluster=ray", "+cluster.num_worker=2")


def test_devices_are_those_of_the_workers_not_of_this_machine(monkeypatch):
    monkeypatch.setattr(preflight, "find_spec", lambda name: object())
    monkeypatch.setattr(preflight, "cuda_device_count", lambda: None)
    (job,) = jobs("cluster=ray", "cluster.gpus_per_worker=0.5", "env.device=cuda")
    with pytest.raises(ConfigError, match=r"env\.device=cuda: no CUDA on this machine"):
        preflight.check_devices(job.config)  # as a worker does
    assert "env.device=gpu: expected cpu, cuda or cuda:N" in fault(
        "cluster=ray", "cluster.gpus_per_worker=1", "env.device=gpu"
    )


@pytest.mark.parametrize("address", ["auto", "10.0.0.1:6379", "head.node:6379", "'[fe80::1]:6379'", "null"])
def test_addresses_of_a_ray_cluster(address, monkeypatch):
    monkeypatch.setattr(preflight, "find_spec", lambda name: object())
    assert jobs("cluster=ray", f"cluster.address={address}")


@pytest.mark.parametrize("address", ["local", "10.0.0.1", "'ray://head:10001'", "'head:'", "'head:6379/x'", "''"])
def test_what_is_no_address_of_a_ray_cluster_is_refused(address, monkeypatch):
    monkeypatch.setattr(preflight, "find_spec", lambda name: object())
    expected = f"cluster.address={address.strip(chr(39))}: expected auto, or host:port of a Ray cluster's head, or null"
    assert expected in fault("cluster=ray", f"cluster.address={address}")


@pytest.mark.parametrize("root", ["s3://bucket/set", "memory://set", "file:///shared/set", "hf::s3://bucket/set"])
def test_a_dataset_is_written_into_a_folder_not_to_an_address(root):
    assert f"dataset.root={root}: is an address, and a dataset is written into a folder" in fault(
        f"dataset.root='{root}'"
    )
