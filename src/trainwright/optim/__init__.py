"""Optimizers, parameter groups, schedules as pure functions, clipping."""
