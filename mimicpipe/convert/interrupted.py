"""What a conversion that was killed has left beside its target, and whether this one may go on with it."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mimicpipe.errors import ConfigError
from mimicpipe.recorders.staged import StagedRun
from mimicpipe.recorders.staging_area import StagingArea, is_published, owner_of, staged_logs, staging_path


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
    if is_published(target):  # killed when all was done but tidying up
        StagingArea(target, clear=False).publish(overwrite=False)
        return 0
    staged = StagedRun(staged_logs(folder))
    if staged.header is None or len(staged) == 0:
        return 0
    if staged.header["run_info"] == json.loads(json.dumps(run_info)):
        indices = [meta["index"] for meta in staged.metas]
        return next((place for place, index in enumerate(indices) if index != place), len(indices))
    if overwrite:
        return 0
    raise ConfigError(
        f"{target}: {folder.name} beside it has {len(staged)} episodes of another run, or of a conversion of another "
        "file or with other options; go on with that, or drop them with --overwrite"
    )
