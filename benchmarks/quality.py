"""How many planted faults `data check` finds, and how much of what it finds was planted.

Each fault is put into a real data set, as its file holds it, and looked for by the check of its
kind. A row that the check names in the untouched rows too is a fault that the set came with, and
counts neither way. Of label errors, which are planted in at most 10,000 rows of a set, every row
counts, because real ones cannot be told apart: precision is too low by what the set came with. In a
set of fewer than 1,000 rows they are planted ten times anew, and all are counted together. They are
looked for by cleanlab as its documentation shows it beside ours: out-of-sample probabilities of
scikit-learn's logistic regression (of a table of its gradient boosting too) by `cross_val_predict`,
then `find_label_issues`.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import polars as pl

import page
from qualities.faults import FAULTS, Fault
from qualities.sets import TARGETS, read_set
from real import FOLDER
from trainwright.data.quality.examined_data import ExaminedData, examine
from trainwright.data.quality.run_checks import find_kind

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

_MOST_LABELS = 10_000
"""Rows of a set in which labels are swapped: fitting by hand takes long on more."""

_FEW_ROWS, _TIMES = 1000, 10
"""In fewer rows so few labels are swapped that one more or less is chance."""


Ways: TypeAlias = "dict[str, tuple[BaseEstimator, np.ndarray]]"
"""Models by their names, with their inputs."""


@dataclass(frozen=True)
class Score:
    """What was planted, found, and both."""

    planted: int
    found: int
    both: int

    @property
    def precision(self) -> float:
        return self.both / self.found if self.found else 0.0

    @property
    def recall(self) -> float:
        return self.both / self.planted if self.planted else 0.0

    @property
    def f1(self) -> float:
        return 2 * self.both / max(self.planted + self.found, 1)


def score(planted: set, found: set) -> Score:
    return Score(len(planted), len(found), len(planted & found))


def total(scores: Iterable[Score]) -> Score:
    every = list(scores)
    return Score(*(sum(getattr(s, part) for s in every) for part in ("planted", "found", "both")))


def find(fault: Fault, data: ExaminedData, by_columns: bool) -> set:
    """The rows, or the columns, that findings of the fault's kind name."""
    findings = find_kind(data, fault.kind, fault.columns)
    if by_columns:
        return {name for each in findings for name in each.columns}
    return {row for each in findings for row in each.rows}


def measure(fault: Fault, seed: int) -> tuple[Score, pl.DataFrame, set]:
    """Plant, look, count."""
    clean = read_set(fault.data)
    if fault.kind == "label_error":
        clean = clean.head(_MOST_LABELS)
    target = TARGETS[fault.data]
    frame, where = fault.plant(clean, np.random.default_rng(seed))
    by_columns = any(isinstance(place, str) for place in where)
    if fault.name == "units as text":
        cells = frame["body_mass_g"].fill_null("")
        where = set(np.flatnonzero(cells.str.ends_with("lb").to_numpy()).tolist())
    found = find(fault, examine(frame, target, fault.columns), by_columns)
    if fault.kind != "label_error":
        found -= find(fault, examine(clean, target, fault.columns), by_columns) - set(where)
    if by_columns and fault.kind == "redundant_columns":
        # A pair has two names; the planted one is new.
        found = {name for name in found if name not in clean.columns}
    return score(set(where), found), frame, set(where)


def models_of_texts(texts: pl.Series) -> Ways:
    """Words and their weights."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    model = make_pipeline(TfidfVectorizer(), LogisticRegression(max_iter=200))
    return {"logistic regression": (model, texts.to_numpy().astype(str))}


def models_of_columns(frame: pl.DataFrame) -> Ways:
    """Numbers and categories, for a line and for trees."""
    from sklearn.compose import make_column_transformer
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.impute import SimpleImputer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler

    cells = frame.select(pl.all().str.strip_chars().replace({"": None, "?": None}))
    cells = cells.select([c for c in cells if c.n_unique() < frame.height])
    typed = cells.select([c.cast(pl.Float64, strict=False).alias(c.name)
                          if c.cast(pl.Float64, strict=False).null_count() == c.null_count()
                          else c.fill_null("none") for c in cells])  # fmt: skip
    number = [i for i, c in enumerate(typed) if c.dtype == pl.Float64]
    word = [i for i, c in enumerate(typed) if c.dtype != pl.Float64]
    rows = typed.to_numpy().astype(object)
    rows[:, number] = rows[:, number].astype(float)
    line = make_column_transformer(
        (make_pipeline(SimpleImputer(), StandardScaler()), number),
        (OneHotEncoder(handle_unknown="ignore"), word),
    )
    codes = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1)
    trees = make_column_transformer((codes, word), remainder="passthrough")
    boosting = HistGradientBoostingClassifier(random_state=0)
    return {
        "logistic regression": (make_pipeline(line, LogisticRegression(max_iter=500)), rows),
        "gradient boosting": (make_pipeline(trees, boosting), rows),
    }


def by_hand(frame: pl.DataFrame, target: str, text: str) -> Iterator[tuple[str, set[int]]]:
    """Rows that cleanlab names, given probabilities of each model that a person would take."""
    from cleanlab.filter import find_label_issues
    from sklearn.model_selection import cross_val_predict

    labels = np.unique(frame[target].to_numpy().astype(str), return_inverse=True)[1]
    ways = models_of_texts(frame[text]) if text else models_of_columns(frame.drop(target))
    for name, (model, inputs) in ways.items():
        chances = cross_val_predict(model, inputs, labels, cv=5, method="predict_proba")
        yield name, set(np.flatnonzero(find_label_issues(labels, chances, n_jobs=1)).tolist())


def compare_label_errors(fault: Fault, frame: pl.DataFrame, where: set[int]) -> list[Score]:
    """cleanlab by hand on the same rows."""
    text = "text" if "text" in frame.columns else ""
    return [score(where, found) for _, found in by_hand(frame, TARGETS[fault.data], text)]


def kinds_table(results: Sequence[tuple[Fault, Score]]) -> str:
    by_kind: dict[str, list[Score]] = defaultdict(list)
    for fault, one in results:
        by_kind[fault.kind].append(one)
    lines = ["| kind | faults | planted | found | precision | recall |",
             "| --- | ---: | ---: | ---: | ---: | ---: |"]  # fmt: skip
    for kind, scores in by_kind.items():
        whole = total(scores)
        lines.append(
            f"| `{kind}` | {len(scores)} | {whole.planted:,} | {whole.found:,} | "
            f"{whole.precision:.2f} | {whole.recall:.2f} |"
        )
    return "\n".join(lines)


def missed_text(results: Sequence[tuple[Fault, Score]]) -> str:
    """The faults of which a tenth or more was not found; label errors have a table of their own."""
    missed = [
        f"{fault.name} (`{fault.kind}`, {fault.data}: recall {one.recall:.2f})"
        for fault, one in results
        if one.recall < 0.9 and fault.kind != "label_error"
    ]
    return (
        f"Planted and hardly found, label errors aside: {'; '.join(missed)}."
        if missed
        else "All were found."
    )


def labels_table(rows: Sequence[tuple[Fault, Score, list[Score]]]) -> str:
    lines = ["| data | swapped | ours: precision, recall, F1 | cleanlab, logistic regression | "
             "cleanlab, gradient boosting |",
             "| --- | ---: | --- | --- | --- |"]  # fmt: skip
    for fault, ours, theirs in rows:
        shown = [f"{s.precision:.3f}, {s.recall:.3f}, {s.f1:.3f}" for s in (ours, *theirs)]
        shown += ["not for texts"] * (3 - len(shown))
        lines.append(f"| {fault.data} | {fault.name.split()[0]} | {' | '.join(shown)} |")
    return "\n".join(lines)


def main() -> None:
    """Plant every fault, look for it, and print the tables; with `--write` into the docs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write docs/benchmarks.md")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kind", default="", help="only this kind, without the comparison")
    options = parser.parse_args()
    if not FOLDER.is_dir():
        parser.error(f"the data sets are not in {FOLDER}")
    results: list[tuple[Fault, Score]] = []
    compared: list[tuple[Fault, Score, list[Score]]] = []
    for fault in FAULTS:
        if options.kind and fault.kind != options.kind:
            continue
        small = fault.kind == "label_error" and read_set(fault.data).height < _FEW_ROWS
        seeds = range(options.seed, options.seed + (_TIMES if small else 1))
        tries = [measure(fault, seed) for seed in seeds]
        one = total(scored for scored, _, _ in tries)
        results.append((fault, one))
        print(f"{fault.kind:22} {fault.data:11} {fault.name:32} planted {one.planted:6,} found "
              f"{one.found:6,} precision {one.precision:.3f} recall {one.recall:.3f}",
              flush=True)  # fmt: skip
        if fault.kind == "label_error" and "swapped" in fault.name and not options.kind:
            theirs = [compare_label_errors(fault, frame, where) for _, frame, where in tries]
            compared.append((fault, one, [total(way) for way in zip(*theirs, strict=True)]))
    text = f"{__doc__.strip()}\n\n{len(results)} faults.\n\n{kinds_table(results)}"
    text += f"\n\n{missed_text(results)}"
    if compared:
        text += "\n\n### Label errors beside cleanlab by hand\n\n" + labels_table(compared)
    print(text)
    if options.write:
        packages = ("cleanlab", "scikit-learn", "lightgbm", "polars")
        page.write_section("quality", "Faults that are found", text, packages)


if __name__ == "__main__":
    main()
