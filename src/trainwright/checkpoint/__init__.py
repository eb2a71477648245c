"""Checkpoints: everything needed to resume, whole or absent."""
