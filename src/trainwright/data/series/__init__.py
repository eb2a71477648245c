"""Series over time: their steps, their past as features, and rows of (series, origin, step)."""
