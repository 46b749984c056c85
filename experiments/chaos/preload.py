"""Imports what a run imports; the victims are forked from a process that has done that, and start at once."""

import av
import hydra
import mujoco
import numba
import pyarrow.parquet
import torch

import experiments.recorder.episodes
import mimicpipe.build
import mimicpipe.cli
import mimicpipe.envs.kinematic
import mimicpipe.envs.mujoco.env
import mimicpipe.pools.hdf5
import mimicpipe.recorders.async_lerobot
import mimicpipe.recorders.joining
import mimicpipe.report.sampler
import mimicpipe.runner
import mimicpipe.tools.recover

__all__ = ["av", "experiments", "hydra", "mimicpipe", "mujoco", "numba", "pyarrow", "torch"]
