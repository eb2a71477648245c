"""A decoder that reads images through a projector."""
