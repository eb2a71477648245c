"""Multi-layer perceptron for tables."""
