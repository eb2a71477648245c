"""Verbs of models that write: `generate`, and questions of an evaluation."""
