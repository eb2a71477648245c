"""Label errors, label noise, class balance and outliers of the target."""
