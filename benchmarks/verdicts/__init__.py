"""What the time to a verdict is compared with."""
