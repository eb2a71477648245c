"""Operations on a finished run: new rows, weights, comparison, data quality."""
