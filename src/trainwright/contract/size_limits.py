"""Sizes of networks that no machine has, whether a contract or a bundle names them."""

MOST_LAYERS, MOST_WIDTH = 1_000, 10_000_000
