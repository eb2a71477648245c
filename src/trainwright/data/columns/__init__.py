"""What each column is, its typed values, and the target."""
