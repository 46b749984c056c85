"""Where episodes go."""
