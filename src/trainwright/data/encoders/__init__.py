"""Feature encoders, fitted on the training rows only and stored as JSON."""
