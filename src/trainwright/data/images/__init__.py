"""Images of every kind of source: read, decoded, divided, prepared."""
