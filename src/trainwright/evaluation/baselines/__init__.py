"""Baselines: dummy, linear, naive forecasts, BM25."""
