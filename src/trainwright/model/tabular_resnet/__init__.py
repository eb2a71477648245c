"""Residual network for tables."""
