"""Text pairs: reading, tokens, encoding and division."""
