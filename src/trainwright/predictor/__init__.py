"""A fitted model with its fitted features, and its folder on disk."""
