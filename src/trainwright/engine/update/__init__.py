"""One optimizer step: forward and backward over micro-batches, clip, update."""
