"""Composition root: executes a contract as a run."""
