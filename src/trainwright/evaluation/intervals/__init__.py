"""Bootstrap confidence intervals, and metrics over shared resamples."""
