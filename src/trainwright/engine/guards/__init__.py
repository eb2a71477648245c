"""What happens after a bad step: skip, roll back, stop."""
