"""Recovery of a run from its copies in an object store."""
