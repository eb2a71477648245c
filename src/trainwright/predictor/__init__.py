"""Predictors: a fitted model with its fitted features, and its bundle on disk."""
