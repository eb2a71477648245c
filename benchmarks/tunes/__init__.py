"""Parts of the benchmark of searches."""
