"""The loops that `benchmarks/loop.py` compares, and what makes them take turns."""
