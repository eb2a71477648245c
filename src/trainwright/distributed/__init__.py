"""Strategies over torch.distributed; one process is the simplest of them."""
