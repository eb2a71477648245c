"""Texts: read, tokenised, cut into chunks and windows, prepared."""
