"""Where source demos come from."""
