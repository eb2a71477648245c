"""Images: sources, decoding, splitting and preparation."""
