"""Encoded inputs of images, texts and pairs, in memory or mapped."""
