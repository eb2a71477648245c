"""Models that others are held against: constants, word counts, pixels to words."""
