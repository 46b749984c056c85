"""`env=isaaclab`: Isaac Lab's Mimic environments behind `MimicEnv`, and a pick task of our own for it."""
