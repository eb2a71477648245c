"""Training a user's model from a script, with the guarantees of a run from a contract."""
