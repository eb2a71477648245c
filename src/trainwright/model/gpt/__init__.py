"""Decoder-only transformer."""
