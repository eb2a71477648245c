"""The training contract: what a person writes, checked as a whole before anything runs."""
