"""Checks before budget is spent."""
