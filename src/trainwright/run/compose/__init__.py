"""The objects of a network's run, built from the plan. Needs torch."""
