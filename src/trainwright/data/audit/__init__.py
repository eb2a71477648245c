"""The leakage audit: whether the wall between training and held-out rows holds, test by test."""
