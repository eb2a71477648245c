import numpy as np
import polars as pl

import trainwright as tw

draw = np.random.default_rng(0)
age, visits = draw.integers(18, 81, size=600), draw.integers(0, 10, size=600)
bought = age + 5 * visits + draw.normal(0, 15, size=600) > 75
people = pl.DataFrame({"age": age, "visits": visits, "bought": bought})

data = tw.prepare(
    {
        "name": "buyers",
        "data": {"path": "frame://people", "target": "bought"},  # or a file: "people.csv"
        "model": {"kind": "boosting", "max_trees": 60},
        "metric": {"name": "roc_auc", "target": 0.7},
    },
    frames={"people": people},
)
fits = [
    tw.fit(data, overrides=[f"model.num_leaves={leaves}"], runs="runs/search", progress=False)
    for leaves in (2, 4, 8)
]
best = max(fits, key=lambda one: one.score)
interval = best.validation.metrics["roc_auc"]  # value, low and high on the validation rows
print(f"validation {best.score:.3f} ({interval.low:.3f} to {interval.high:.3f}), {best.reason}")
print(best.history.columns)  # one row a validation

run = tw.judge(best)  # opens the test rows, once
print(f"{run.verdict.status}: test {run.evaluation.metrics['roc_auc'].value:.3f}")
