"""Task definitions shared by every simulator: objects, reset distributions, success, signals."""
