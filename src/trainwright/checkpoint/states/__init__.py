"""State of each training object: to tensors and plain values, and back."""
