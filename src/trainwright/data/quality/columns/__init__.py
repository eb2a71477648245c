"""Faults of single columns: values, formats, units, ranges, outliers."""
