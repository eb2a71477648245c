"""Metrics on predictions, also vectorised over the row weights of resamples."""
