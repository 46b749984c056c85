"""How many attempts become demos; see README.md in this folder."""
