"""`data`: sources, columns, splits, encodings and order of what is learned from."""
