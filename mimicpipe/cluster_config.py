"""Schema of the group `cluster`: whether one process makes a run's attempts, or several share them."""

import re
from dataclasses import dataclass
from typing import Any

from mimicpipe.errors import ConfigError
from mimicpipe.pool_config import GROWING_POOL
from mimicpipe.schema import at_least, timeout

RAY_CLUSTER = "mimicpipe.cluster.ray_launcher.RayLauncher"
_SYNC_RECORDER = "mimicpipe.recorders.lerobot.LeRobotRecorder"
_ADDRESS = re.compile(r"auto|(\[[0-9A-Fa-f:.]+\]|[^\s:/\[\]]+):[0-9]{1,5}")


@dataclass
class ClusterConfig:
    """`cluster`; without a `_target_` one process makes the whole run."""

    _target_: str | None = None
    _convert_: str = "all"


@dataclass
class RayClusterConfig(ClusterConfig):
    """`cluster=ray`."""

    num_workers: int = at_least(1, 2)
    address: str | None = None
    cpus_per_worker: int = at_least(1, 1)
    gpus_per_worker: float = at_least(0, 0.0)
    max_retries: int = at_least(0, 3)
    worker_timeout_s: float = timeout(120.0)


CLUSTER_SCHEMAS: dict[str, type] = {RAY_CLUSTER: RayClusterConfig}


def check_cluster(run: dict[str, Any]) -> None:
    """Raise ConfigError where workers cannot share the run's attempts, or its dataset."""
    if run["cluster"]["_target_"] is None:
        return
    address = run["cluster"].get("address")
    if run["cluster"]["_target_"] == RAY_CLUSTER and address is not None and not _ADDRESS.fullmatch(address):
        raise ConfigError(
            f"cluster.address={address}: expected auto, or host:port of a Ray cluster's head, or null, which starts one"
        )
    if run["pool"]["_target_"] == GROWING_POOL:
        raise ConfigError(
            "cluster=ray: with pool=growing an attempt depends on those before it, so workers cannot share them; "
            "use cluster=none, or another pool"
        )
    if run["recorder"]["_target_"] == _SYNC_RECORDER:
        raise ConfigError(
            "cluster=ray: recorder=sync writes the dataset itself, so workers cannot share it; "
            "use recorder=async, sharded, hdf5 or none"
        )
    devices = {"env.device": run["env"]["device"], "generator.device": run["generator"].get("device", "cpu")}
    for key, device in devices.items():
        if device != "cpu" and not run["cluster"].get("gpus_per_worker", 1):
            raise ConfigError(
                f"{key}={device}: a worker sees the GPUs that Ray reserves for it; "
                "give cluster.gpus_per_worker, 1 or a part"
            )
