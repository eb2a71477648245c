"""Storages of checkpoints: a local folder, an object store."""
