"""Extension of a finished run."""
