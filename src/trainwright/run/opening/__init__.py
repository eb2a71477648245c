"""A run folder is created, reopened, or left as it was."""
