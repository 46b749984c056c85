"""`env=mujoco_warp` on a GPU: agreement with the CPU, and the pipeline's share of the bare physics."""
