"""What the planner knows of each kind of data."""
