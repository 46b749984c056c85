"""`env=mujoco_warp`: the scenes of `env=mujoco` on MuJoCo-Warp, on a GPU or, slowly, on the CPU."""
