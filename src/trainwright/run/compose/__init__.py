"""Construction of a network run's objects from the plan. Needs torch."""
