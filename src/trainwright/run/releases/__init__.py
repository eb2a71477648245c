"""Finished runs as versions of a registry, and their way into use."""
