"""Trainwright trains models from a written contract, and proves what they reach."""

__version__ = "0.1.0"
