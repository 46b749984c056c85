"""One folder per experiment: the claim, the command that tests it, and its committed result."""
