"""Published architectures, not yet trained by this version."""
