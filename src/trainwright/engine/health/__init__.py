"""Signs of failing training, reported once each."""
