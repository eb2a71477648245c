"""How a step is executed: precision, compilation, memory, kernels."""
