"""What telemetry costs a run."""
