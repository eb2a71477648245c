"""Requests: of a run, of its resume, of its extension."""
