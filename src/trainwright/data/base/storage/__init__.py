"""Rows and numbers in memory or in files."""
