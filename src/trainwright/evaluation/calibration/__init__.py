"""Calibration of scores, and thresholds of decisions."""
