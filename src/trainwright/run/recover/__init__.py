"""A run brought back from its copies in an object store."""
