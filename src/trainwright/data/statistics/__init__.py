"""Column statistics: dependence, leakage tests, lags, profiles and histograms."""
