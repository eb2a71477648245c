"""Images with captions to write: tokens, encoding and division."""
