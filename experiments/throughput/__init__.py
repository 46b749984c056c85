"""How much of the machine is left for physics; see README.md in this folder."""
