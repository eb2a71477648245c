"""`trainwright weights`: export and convert."""
