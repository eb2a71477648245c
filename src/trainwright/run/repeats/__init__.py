"""Repeated trainings: folds, seeds and refits."""
