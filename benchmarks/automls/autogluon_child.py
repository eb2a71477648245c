"""AutoGluon on two CSV files, in its own environment: fits on one, predicts the other.

Its argument is JSON: paths of both files, target, metric, preset, seconds, cores, calls, the column
of groups or "", categorical columns that hold numbers, and a folder, where it writes
`predictions.csv`: the probability of each class, or `prediction`, in the order of the test file. It
prints JSON: seconds of the fit, median milliseconds of as many calls with one row each, megabytes
of the clone for deployment, and the model's name.

With `search` in place of the preset, it searches one kind of model: its name, its space, and most
trials. Then it prints seconds, the number of trials, the model's name and its validation score.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import pandas as pd

METRICS = {
    **{name: name for name in ("accuracy", "average_precision", "f1_macro", "roc_auc")},
    "rmse": "root_mean_squared_error",
}

FOLDS = 8
"""Folds of whole groups, as many as it makes of rows."""


def main() -> None:
    """Fit and predict."""
    given: dict[str, Any] = json.loads(sys.argv[1])
    from autogluon.tabular import TabularDataset, TabularPredictor

    train, test = (TabularDataset(given[name]) for name in ("train", "test"))
    for one in (train, test):
        for name in given["categorical"]:
            one[name] = one[name].astype(str)
    target, folder = given["target"], Path(given["folder"])
    is_number = given["metric"] == "rmse"
    if not is_number:
        train[target] = train[target].astype(str)
    levels: dict[str, Any] = {}
    if groups := given["groups"]:
        # It takes each value for a fold, and fails on its search of stack levels.
        train["fold"] = pd.factorize(train[groups])[0] % FOLDS
        train, test = train.drop(columns=[groups]), test.drop(columns=[groups])
        levels = {"dynamic_stacking": False}
    asked = {"presets": given["preset"]} if "preset" in given else search_of(given["search"])
    started = time.perf_counter()
    predictor = TabularPredictor(
        label=target,
        eval_metric=METRICS[given["metric"]],
        problem_type="regression" if is_number else None,
        path=str(folder / "models"),
        groups="fold" if groups else None,
        verbosity=1,
    ).fit(
        train,
        time_limit=given["seconds"],
        num_cpus=given["cores"],
        **levels,
        **asked,
    )
    fitted = time.perf_counter() - started
    rows = test.drop(columns=[target])
    if is_number:
        predicted = pd.DataFrame({"prediction": predictor.predict(rows)})
    else:
        predicted = predictor.predict_proba(rows)
    predicted.to_csv(folder / "predictions.csv", index=False)
    if "search" in given:
        board = predictor.leaderboard()
        best = board[board["model"] == predictor.model_best].iloc[0]
        found: dict[str, Any] = {
            "seconds": fitted,
            "trials": int((board["stack_level"] == 1).sum()),
            "model": str(predictor.model_best),
            "validation": abs(float(best["score_val"])),
        }
        print(json.dumps(found))
        return
    clone = Path(predictor.clone_for_deployment(str(folder / f"deployed-{given['preset']}")))
    size = sum(file.stat().st_size for file in clone.rglob("*") if file.is_file())
    predictor.persist()
    predict, times = predictor.predict if is_number else predictor.predict_proba, []
    for index in range(min(given["calls"], len(rows))):
        started = time.perf_counter()
        predict(rows.iloc[[index]])
        times.append(time.perf_counter() - started)
    found = {
        "seconds": fitted,
        "row_ms": 1000 * statistics.median(times),
        "megabytes": size / 1e6,
        "model": str(predictor.model_best),
    }
    print(json.dumps(found))


def search_of(given: dict[str, Any]) -> dict[str, Any]:
    """Arguments of a search of one kind of model."""
    from autogluon.common import space

    def axis(values: Any) -> Any:
        if isinstance(values, list):
            return space.Categorical(*values)
        low, high, is_log = values["low"], values["high"], values.get("scale") == "log"
        if isinstance(low, int):
            return space.Int(low, high)
        return space.Real(low, high, log=is_log)

    searched = {name: axis(values) for name, values in given["space"].items()}
    how = {"num_trials": given["trials"], "scheduler": "local", "searcher": "auto"}
    return {
        "hyperparameters": {given["model"]: searched},
        "hyperparameter_tune_kwargs": how,
    }


if __name__ == "__main__":
    main()
