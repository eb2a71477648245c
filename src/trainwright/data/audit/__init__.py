"""Leakage audit: tests of the train/held-out separation."""
