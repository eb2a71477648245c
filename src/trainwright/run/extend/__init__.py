"""A finished run goes on with a new ending."""
