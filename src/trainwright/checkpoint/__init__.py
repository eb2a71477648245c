"""Everything needed to continue, whole or absent."""
