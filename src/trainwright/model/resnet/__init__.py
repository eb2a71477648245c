"""Residual network for images."""
