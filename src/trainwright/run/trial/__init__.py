"""Measurements before the training, with the model and batches of the plan."""
