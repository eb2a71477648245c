"""What the benchmark of the data measures: ways to get batches, and to prepare a table."""
