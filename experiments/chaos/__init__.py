"""kill -9 at random moments: nothing that was reported durable is lost, and the run ends with the same dataset."""
