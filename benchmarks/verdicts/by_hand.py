"""The income example as a script by hand: polars, LightGBM with early stopping, and the score.

`python benchmarks/verdicts/by_hand.py examples/income`
"""

from __future__ import annotations

import sys
from pathlib import Path

import lightgbm
import numpy as np
import polars as pl
from sklearn.metrics import roc_auc_score

LEFT_OUT = ("fnlwgt", "education", "income")


def matrix(frame: pl.DataFrame, codes: dict[str, dict[str, int]]) -> np.ndarray:
    """Numbers, then codes of the words; words that no training row has are missing."""
    numbers = [name for name in frame.columns if name not in (*LEFT_OUT, *codes)]
    words = [
        frame[name].replace_strict(codes[name], default=None, return_dtype=pl.Float64)
        for name in codes
    ]
    return np.column_stack([*(frame[name] for name in numbers), *words])


def main() -> None:
    """Train, score the test rows, and print both."""
    folder = Path(sys.argv[1])
    train, test = (pl.read_csv(folder / f"adult_{part}.csv.gz") for part in ("train", "test"))
    words = [
        name for name, kind in train.schema.items() if kind == pl.String and name not in LEFT_OUT
    ]
    codes = {
        name: {word: code for code, word in enumerate(train[name].unique(maintain_order=True))}
        for name in words
    }
    rows = matrix(train, codes)
    earns, test_earns = (
        part["income"].str.contains(">50K", literal=True).to_numpy() for part in (train, test)
    )
    held = np.random.default_rng(0).random(len(rows)) < 0.15
    coded = list(range(rows.shape[1] - len(words), rows.shape[1]))
    seen = lightgbm.Dataset(rows[~held], earns[~held], categorical_feature=coded)
    model = lightgbm.train(
        {"objective": "binary", "learning_rate": 0.05, "verbosity": -1},
        seen,
        2000,
        valid_sets=[seen.create_valid(rows[held], earns[held])],
        callbacks=[lightgbm.early_stopping(100, verbose=False)],
    )
    area = roc_auc_score(test_earns, model.predict(matrix(test, codes)))
    print(f"{model.best_iteration} trees, ROC AUC {area:.4f}")


if __name__ == "__main__":
    main()
