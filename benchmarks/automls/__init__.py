"""Parts of the benchmark of automatic choices of models."""
