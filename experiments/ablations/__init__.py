"""What each choice of MimicGen's method is worth: see README.md."""
