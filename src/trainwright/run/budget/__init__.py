"""Allotment of a budget before training."""
