"""Judging on the test rows: evaluation file, experiments on findings, predictions."""
