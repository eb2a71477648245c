"""Stop rules."""
