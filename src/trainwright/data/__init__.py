"""Data: sources, quality checks, splits, features, versions and the feed."""
