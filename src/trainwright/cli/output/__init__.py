"""Results on stdout: tables, JSON, and what to do next."""
