"""Training an own model from a script, with the promises of a run from a contract."""
