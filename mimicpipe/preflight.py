"""What a checked config asks of this machine (a device, source demos, a place for the dataset), and of itself."""

import ctypes
import re
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from mimicpipe.cluster_config import RAY_CLUSTER
from mimicpipe.config import MUJOCO_WARP_ENV, RunConfig
from mimicpipe.datagen.constraints import check_constraints, parse_constraints
from mimicpipe.envs.isaaclab import extra as isaaclab
from mimicpipe.envs.mujoco_warp import extra
from mimicpipe.errors import ConfigError
from mimicpipe.generator_config import POLICY_GENERATOR
from mimicpipe.isaaclab_config import ISAACLAB_ENV, SOURCE_DEMOS
from mimicpipe.pool_config import OnError
from mimicpipe.recorders.staging import check_repo_id, check_root, check_writable
from mimicpipe.trackers.jsonl import JsonlTracker
from mimicpipe.training.kinds import check_playable

NULL_RECORDER = "mimicpipe.recorders.none.NullRecorder"
FAILED_SUFFIX = "_failed"
"""Of the root and repo_id of the dataset of failed attempts."""
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.:-]*://")
"""How those of fsspec, as s3://, gs:// and file://, begin."""
OF_A_RUN = ("attempts.jsonl", "run.json")
"""What a run leaves in its output folder, and another one would write anew."""
_HDF5_SUFFIXES = (".hdf5", ".h5")
_HDF5_SIGNATURE = b"\x89HDF\r\n\x1a\n"
BUNDLED_DEMOS = Path(__file__).parent / "assets" / "source_demos"


def check_machine(config: RunConfig) -> None:
    """Check constraints, packages of extras, device, source demos and the dataset's names.

    From here on `dataset.root` is absolute.

    Raises:
        ConfigError: names the key, the value and what there is.
    """
    refs = {eef: [node["object_ref"] for node in nodes] for eef, nodes in config.task["subtasks"].items()}
    check_constraints(parse_constraints(config.task["constraints"]), refs)
    if config.env["_target_"] == MUJOCO_WARP_ENV:
        extra.check_installed()
    if config.env["_target_"] == ISAACLAB_ENV:
        isaaclab.check_installed()
    if config.cluster["_target_"] == RAY_CLUSTER and find_spec("ray") is None:
        raise ConfigError(
            "cluster=ray: needs the extra cluster (ray not installed); get it with `make cluster` or "
            "pip install -e '.[cluster]', or use cluster=none"
        )
    check_devices(config, here=config.cluster["_target_"] is None)  # workers check for themselves
    if config.generator["_target_"] == POLICY_GENERATOR:
        _check_policy(config.generator)
    for path in source_demo_paths(config):
        if not path.exists():
            raise ConfigError(f"pool.path={path}: no such file or folder")
        skips = config.pool.get("on_error") == OnError.skip
        if not skips and path.suffix in _HDF5_SUFFIXES and path.is_file() and not _has_hdf5_signature(path):
            raise ConfigError(f"pool.path={path}: is not an HDF5 file, or its first bytes are damaged; copy it again")
    if config.recorder["_target_"] != NULL_RECORDER:
        check_repo_id(config.dataset.repo_id)
        config.dataset.root = str(resolved_root(config.dataset.root))


def _has_hdf5_signature(path: Path) -> bool:
    """Whether an HDF5 file begins at byte 0, or behind a user block (HDF5 file format 3.0, II.A)."""
    with path.open("rb") as file:
        for at in (0, *(512 << power for power in range(8))):
            file.seek(at)
            if file.read(len(_HDF5_SIGNATURE)) == _HDF5_SIGNATURE:
                return True
    return False


def resolved_root(root: str) -> Path:
    """A dataset's root as an absolute path without links, so that two names of one folder are the same.

    Raises:
        ConfigError: empty, an address, the root of a file system, or a link that leads nowhere.
    """
    if not root.strip():
        raise ConfigError(f"dataset.root={root}: is empty; name a folder that does not exist yet")
    if _ADDRESS.match(root):
        raise ConfigError(
            f"dataset.root={root}: is an address, and a dataset is written into a folder (cluster=ray: one that all "
            "machines share); name one, and copy the dataset from there"
        )
    given = Path(root).expanduser().absolute()
    if given.is_symlink() and not given.exists():
        raise ConfigError(f"dataset.root={given}: exists, and is a link that leads nowhere; choose another")
    try:
        resolved = given.resolve()
    except (OSError, RuntimeError) as error:
        raise ConfigError(f"dataset.root={given}: {error}") from None
    if not resolved.name:
        raise ConfigError(f"dataset.root={resolved}: is the root of the file system; name a folder in it")
    return resolved


def check_paths(jobs: Iterable[tuple[RunConfig, Path]]) -> None:
    """Check that every job, given with its output folder, can write its dataset, and no two the same one.

    Raises:
        ConfigError: a folder that cannot be made, a dataset that exists, or a clash within a sweep.
    """
    seen: set[Path] = set()
    jobs = list(jobs)
    for config, output_dir in jobs:
        key = "hydra.run.dir" if len(jobs) == 1 else "hydra.sweep.dir"
        check_writable(key, output_dir)  # first, because the dataset's root is in it by default
        _check_holds_no_run(key, output_dir, config)
        places = {key: output_dir}
        if config.recorder["_target_"] != NULL_RECORDER:
            places["dataset.root"] = check_dataset_root(config)
            if config.recorder["save_failed"]:
                places["dataset.root (failed attempts)"] = check_dataset_root(config, FAILED_SUFFIX)
        for key, path in places.items():
            path = path.resolve()
            if path in seen:
                raise ConfigError(
                    f"{key}={path}: two jobs of the sweep would write here; put ${{hydra:job.num}} into it"
                )
            seen.add(path)


def _check_holds_no_run(key: str, folder: Path, config: RunConfig) -> None:
    """Refuse an output folder whose run would lose its attempts.jsonl and run.json."""
    metrics = folder / "metrics.jsonl"
    if metrics.is_file() and JsonlTracker.is_written(metrics):
        raise ConfigError(f"{key}={folder}: a run is writing there; choose another folder")
    if config.resume is None and not config.dataset.overwrite and any((folder / name).exists() for name in OF_A_RUN):
        raise ConfigError(
            f"{key}={folder}: holds a run; choose another folder, go on with that run (resume={folder}), or replace it "
            "(dataset.overwrite=true)"
        )


def check_dataset_root(config: RunConfig, suffix: str = "") -> Path:
    """The dataset's root as `resolved_root` has it, with a suffix to its name, which does not exist or may be replaced.

    Raises:
        ConfigError: it exists and `dataset.overwrite` is off, it exists and is no dataset, or it cannot be made.
    """
    root = resolved_root(config.dataset.root)
    root = resolved_root(str(root.with_name(root.name + suffix)))
    return check_root(root, config.dataset.overwrite, resume=config.resume is not None)


def source_demo_paths(config: RunConfig) -> list[Path]:
    """Where source demos are read, where any are: `pool.path`, or the demos that come with the task."""
    if "path" not in config.pool or config.generator["_target_"] == POLICY_GENERATOR:
        return []
    given = config.pool["path"]
    if given is not None:
        return [Path(path).expanduser() for path in ([given] if isinstance(given, str) else given)]
    name = config.task["name"]
    bundled = BUNDLED_DEMOS / f"{SOURCE_DEMOS.get(name, name)}.hdf5"
    if not bundled.is_file():
        known = ", ".join(sorted(p.stem for p in BUNDLED_DEMOS.glob("*.hdf5"))) or "none"
        raise ConfigError(
            f"pool.path=null: no source demos come with task {config.task['name']} (there are some for: {known}); "
            "give a file with pool.path=..."
        )
    return [bundled]


def cuda_device_count() -> int | None:
    """Number of CUDA devices by the driver's own word, without importing torch; None where there is no driver."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
    count = ctypes.c_int()
    if driver.cuInit(0) != 0 or driver.cuDeviceGetCount(ctypes.byref(count)) != 0:
        return None
    return count.value


def _check_policy(generator: dict[str, Any]) -> None:
    try:
        check_playable(Path(generator["checkpoint"]).expanduser())
    except ConfigError as error:
        raise ConfigError(f"generator.checkpoint={generator['checkpoint']}: {error}") from None


def check_devices(config: RunConfig, *, here: bool = True) -> None:
    """Check the names of the devices that a run uses, and, with `here`, that this machine has them.

    Raises:
        ConfigError: names the key, the value and what there is.
    """
    _check_device("env.device", config.env["device"], here)
    if config.generator["_target_"] == POLICY_GENERATOR:
        _check_device("generator.device", config.generator["device"], here)


def _check_device(key: str, device: str, here: bool) -> None:
    if device == "cpu":
        return
    match = re.fullmatch(r"cuda(?::(\d+))?", device)
    if not match:
        raise ConfigError(f"{key}={device}: expected cpu, cuda or cuda:N")
    if not here:
        return
    count = cuda_device_count()
    if not count:
        why = "no NVIDIA driver is installed" if count is None else "the driver sees no GPU"
        raise ConfigError(f"{key}={device}: no CUDA on this machine ({why}); valid: cpu")
    if int(match[1] or 0) >= count:
        raise ConfigError(f"{key}={device}: valid: cpu, {', '.join(f'cuda:{i}' for i in range(count))}")
