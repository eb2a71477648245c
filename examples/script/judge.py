import numpy as np
import polars as pl
from sklearn.ensemble import RandomForestClassifier

import trainwright as tw

draw = np.random.default_rng(0)
age, visits = draw.integers(18, 81, size=600), draw.integers(0, 10, size=600)
bought = age + 5 * visits + draw.normal(0, 15, size=600) > 75
city = draw.choice(["Rome", "Oslo"], size=600)
people = pl.DataFrame({"age": age, "visits": visits, "city": city, "bought": bought})

data = tw.prepare(
    {
        "name": "forest",
        "data": {"path": "frame://people", "target": "bought"},  # or a file: "people.csv"
        "model": {"kind": "linear"},
        "metric": {"name": "roc_auc", "target": 0.7},
        "slices": [{"column": "city"}],
    },
    frames={"people": people},
)
train = data.train  # features as a frame, target as a series; `data.validation` likewise
forest = RandomForestClassifier(min_samples_leaf=10, random_state=0)
forest.fit(train.features.select("age", "visits"), train.target)


def predict(rows: pl.DataFrame) -> dict[str, object]:
    shares = forest.predict_proba(rows.select("age", "visits"))
    return {str(name): shares[:, at] for at, name in enumerate(forest.classes_)}


result = tw.judge(predict, data)
clause = result.verdict.clauses[0]
print(f"{result.verdict.status}: {clause.name}, {len(result.evaluation.slices)} slices")
