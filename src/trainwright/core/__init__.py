"""Errors, progress, formatting, safe paths, atomic files and hashing. Imports nothing heavy."""
