"""Copies of checkpoints and run files in another storage, and recovery from them."""
