"""What is done with a finished run: new rows, weights, comparison, data quality."""
