"""Tracking: events, signals, and the run folder. Imports no torch."""
