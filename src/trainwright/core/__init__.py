"""Errors, progress, units, safe paths, atomic files and hashing. Imports nothing heavy."""
