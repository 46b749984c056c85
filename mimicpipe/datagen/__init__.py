"""Generation: source demos, subtasks, selection, and the plans made of them. Knows no simulator and no file format."""
