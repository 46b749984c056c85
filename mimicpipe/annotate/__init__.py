"""Where subtasks end and skills begin: from the task, by rules, or by hand (`python -m mimicpipe.tools.annotate`)."""
