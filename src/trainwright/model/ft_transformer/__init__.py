"""Transformer over the columns of a table."""
