"""Experiments on findings of the leakage audit: clauses re-evaluated without the suspects."""
