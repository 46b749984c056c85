"""Long runs: memory and time per step stay flat, and a slow disk loses nothing."""
