"""Repeated trainings: folds and seeds."""
