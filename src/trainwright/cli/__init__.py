"""The verbs, thin."""
