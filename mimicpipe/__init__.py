"""mimicpipe: a handful of demonstrations in, a LeRobot dataset of thousands out."""

__version__ = "0.1.0"
