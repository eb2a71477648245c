"""Data quality checks: one finding type and one small detector per fault."""
