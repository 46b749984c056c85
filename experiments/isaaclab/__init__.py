"""The pipeline on Isaac Lab against `env.step` alone and against Isaac Lab Mimic's own loop."""
