"""HDF5 files of Isaac Lab or robomimic into LeRobot datasets, and back (`python -m mimicpipe.tools.convert`)."""
