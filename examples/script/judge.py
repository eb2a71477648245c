from pathlib import Path

import polars as pl
from sklearn.ensemble import RandomForestClassifier

import trainwright as tw

data = tw.prepare(
    {
        "data": {"path": "people.csv", "target": "bought"},
        "model": {"kind": "linear"},
        "metric": {"name": "roc_auc", "target": 0.7},
        "slices": [{"column": "city"}],
    }
)
train = data.train  # features as a frame, target as a series; `data.validation` likewise
forest = RandomForestClassifier(min_samples_leaf=10, random_state=0)
forest.fit(train.features.select("age", "visits"), train.target)


def predict(rows: pl.DataFrame) -> dict[str, object]:
    shares = forest.predict_proba(rows.select("age", "visits"))
    return {str(name): shares[:, at] for at, name in enumerate(forest.classes_)}


result = tw.judge(predict, data, runs=Path("runs"), name="forest")
clause = result.verdict.clauses[0]
print(f"{result.verdict.status}: {clause.name}, {len(result.evaluation.slices)} slices")
