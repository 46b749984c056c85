"""What a conversion that was killed has left beside its target, and whether this one may go on with it."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mimicpipe.errors import ConfigError, RecorderError
from mimicpipe.recorders.dataset_meta import INFO_FILE
from mimicpipe.recorders.staged import StagedRun
from mimicpipe.recorders.staging_area import StagingArea, is_published, owner_of, staged_logs, staging_path


def completed_before(target: Path, run_info: Mapping[str, Any]) -> tuple[int, int] | None:
    """(episodes, frames), if the same conversion was killed when all was done but tidying up, which is done now.

    Args:
        target: the dataset.
        run_info: of this conversion: source, options, columns.

    Raises:
        ConfigError: a process is writing there.
    """
    folder = staging_path(target)
    if not folder.is_dir() or not is_published(target):
        return None
    try:
        StagingArea(target, clear=False).publish(overwrite=False)
    except RecorderError as error:
        raise ConfigError(str(error)) from None
    try:
        run = json.loads((target / INFO_FILE).read_text(encoding="utf-8"))["run"]
        info = json.loads((target / "meta" / "info.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, LookupError):
        return None
    return (info["total_episodes"], info["total_frames"]) if run == _as_json(run_info) else None


def staged_before(target: Path, run_info: Mapping[str, Any], overwrite: bool) -> int:
    """How many episodes, from the first one, a conversion with the same options has made durable.

    Args:
        target: the dataset.
        run_info: of this conversion: source, options, columns.
        overwrite: drop what another conversion, or run, has left.

    Raises:
        ConfigError: another one has left episodes, or is writing now.
    """
    folder = staging_path(target)
    if not folder.is_dir():
        return 0
    if (owner := owner_of(folder)) is not None:
        raise ConfigError(f"{target}: process {owner} is writing there")
    staged = StagedRun(staged_logs(folder))
    if staged.header is None or len(staged) == 0:
        return 0
    if staged.header["run_info"] == _as_json(run_info):
        indices = [meta["index"] for meta in staged.metas]
        return next((place for place, index in enumerate(indices) if index != place), len(indices))
    if overwrite:
        return 0
    raise ConfigError(
        f"{target}: {folder.name} beside it has {len(staged)} episodes of another run, or of a conversion of another "
        "file or with other options; go on with that, or drop them with --overwrite"
    )


def _as_json(run_info: Mapping[str, Any]) -> Any:
    return json.loads(json.dumps(run_info))
