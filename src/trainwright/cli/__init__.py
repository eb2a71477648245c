"""Command-line verbs, each a thin layer over the library."""
