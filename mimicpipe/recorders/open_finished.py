"""Opens what any recorder of mimicpipe has written."""

from pathlib import Path
from typing import TYPE_CHECKING

from mimicpipe.recorders.finished import FinishedDataset
from mimicpipe.recorders.layout import HDF5_NAME

if TYPE_CHECKING:
    from mimicpipe.recorders.finished_hdf5 import FinishedHdf5

type Finished = "FinishedDataset | FinishedHdf5"


def open_finished(root: Path) -> Finished:
    """The dataset in a folder.

    Raises:
        ConfigError: there is none, or it was not written by a mimicpipe recorder.
    """
    if not (root / HDF5_NAME).is_file():
        return FinishedDataset(root)
    from mimicpipe.recorders.finished_hdf5 import FinishedHdf5  # h5py and torch, which take a second

    return FinishedHdf5(root)
