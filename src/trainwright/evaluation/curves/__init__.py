"""Plot data of the report: curves, histograms, forecasts, retrieval."""
