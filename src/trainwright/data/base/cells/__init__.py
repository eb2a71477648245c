"""Cells of a column: cleaning, numbers, categories, counts."""
