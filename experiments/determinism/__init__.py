"""The same seed is the same dataset, whatever runs it."""
