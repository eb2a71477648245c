"""Text corpora: reading, tokenisation, chunking and preparation."""
