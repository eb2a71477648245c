"""Values to model inputs, fitted on the training rows only, kept as JSON."""
