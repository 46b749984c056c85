"""`recorder=async`: a LeRobot v3 dataset, written by a thread while the simulator steps."""

from mimicpipe.recorders.sharded import ShardedRecorder


class AsyncLeRobotRecorder(ShardedRecorder):
    """`ShardedRecorder` with one thread that writes, and LeRobot's defaults; the arguments are its own."""
