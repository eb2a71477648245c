"""Networks of the user's own code."""
