"""Image-text pairs: reading, tokens, encoding and division."""
