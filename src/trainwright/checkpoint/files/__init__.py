"""Files of a checkpoint: names, manifest, tensors, safe reads."""
