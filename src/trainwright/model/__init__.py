"""Models: boosting, linear models, networks and baselines."""
