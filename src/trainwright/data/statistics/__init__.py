"""Statistics of columns: dependence, leaks, lags, profiles, histograms."""
