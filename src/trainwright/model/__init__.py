"""What is trained: boosting, linear models and networks."""
