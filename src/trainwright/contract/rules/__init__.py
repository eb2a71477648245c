"""Rules that look at several keys or sections."""
