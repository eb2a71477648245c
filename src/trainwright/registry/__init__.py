"""Versions of models, the one in use, and the gate to it."""
