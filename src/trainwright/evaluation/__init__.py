"""Metrics with intervals, slices, baselines, the verdict."""
