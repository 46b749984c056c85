"""What a person sees of a run: the live view, the summary, run.json."""
