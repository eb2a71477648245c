"""Metrics with confidence intervals, slices, baselines and the verdict."""
