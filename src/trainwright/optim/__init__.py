"""Optimizers, parameter groups, learning-rate schedules, weight averages and freezing."""
