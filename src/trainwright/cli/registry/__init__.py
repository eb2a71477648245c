"""Verbs of the registry."""
