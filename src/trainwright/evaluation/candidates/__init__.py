"""Candidates of a selection: comparison, ensembles, stacking."""
