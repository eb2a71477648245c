"""Rules on training: batches, optimizer, memory, checkpoints, repeats."""
