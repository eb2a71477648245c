"""The leakage audit: whether training and held-out rows are separate, test by test."""
