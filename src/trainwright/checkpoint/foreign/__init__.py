"""Import of foreign weights, in a sandbox."""
