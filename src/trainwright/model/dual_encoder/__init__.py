"""Encoders of images and texts with one space of embeddings."""
