"""The order in which training rows are drawn, as arithmetic."""
