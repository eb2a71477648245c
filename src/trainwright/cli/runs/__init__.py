"""`trainwright runs` and `card`: finished runs as tables, checks and model cards."""
