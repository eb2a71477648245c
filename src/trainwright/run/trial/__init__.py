"""Measurements before training, with the model and batches of the plan."""
