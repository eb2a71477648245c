"""Losses, each as a sum over targets and their count."""
