"""Rules on data: sources, columns, features, splits."""
