"""Shared test settings: no network, deterministic hypothesis, two torch threads at most."""

import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("WANDB_MODE", "offline")
