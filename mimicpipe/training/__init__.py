"""Training policies on datasets, and playing them in many simulated environments at once."""
