"""The composition root: a contract becomes a run."""
