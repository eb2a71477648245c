"""Rules on targets, their metrics, and questions."""
