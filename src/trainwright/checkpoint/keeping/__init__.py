"""Which checkpoints are kept."""
