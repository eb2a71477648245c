"""Contract to plan: every auto decided, with its reason and its cost."""
