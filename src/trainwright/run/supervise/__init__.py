"""Signals, preemption, and restarts after a crash."""
