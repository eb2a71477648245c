"""Data of any size, and what a person would write by hand for it."""
