"""Questions that judge a decoder: files, prompts and tokens."""
