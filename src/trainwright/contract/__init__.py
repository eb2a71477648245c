"""Training contract: written by a person, checked as a whole before anything runs."""
