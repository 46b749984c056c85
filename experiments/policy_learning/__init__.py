"""Whether policies learn from generated demos; see README.md in this folder."""
