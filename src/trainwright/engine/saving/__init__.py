"""When a checkpoint is saved."""
