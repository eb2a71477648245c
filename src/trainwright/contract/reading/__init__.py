"""From text to a checked contract, and back to a schema and documentation."""
