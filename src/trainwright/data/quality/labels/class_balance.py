"""Class imbalance, rare classes and serial dependence of the target."""

from __future__ import annotations

import numpy as np

from trainwright.contract.key_paths import as_key
from trainwright.core.formatting import many
from trainwright.data.base.cells.value_counts import count_values
from trainwright.data.base.messages import some
from trainwright.data.quality.examined_data import ExaminedData
from trainwright.data.quality.finding import Finding

_RATIO = 4.0
_STRONG_RATIO = 20.0
_RARE = 10
_FEWEST_IN_ORDER = 100
_EXCESS = 0.2
_MOST_CLASSES = 1000


def class_imbalance(data: ExaminedData) -> list[Finding]:
    """The largest class has at least four times the rows of the smallest."""
    counts = _counts(data)
    if len(counts) < 2:
        return []
    (common, most), (rare, least) = counts[0], counts[-1]
    ratio = most / least
    if ratio < _RATIO:
        return []
    strong = ratio >= _STRONG_RATIO
    total = sum(count for _, count in counts)
    return [
        Finding(
            "class_imbalance",
            "warning" if strong else "info",
            f"class {common!r} has {most:,} rows, class {rare!r} {least:,} ({least / total:.1%}): "
            f"{ratio:.1f} to 1",
            least,
            columns=(data.target,),
            fix="judge by average_precision or f1_macro, not accuracy; weigh the classes with "
            "model.class_weights: balanced (trees) or training.loss: {name: cross_entropy, "
            "class_weights: balanced} (networks)",
        )
    ]


def rare_class(data: ExaminedData) -> list[Finding]:
    """Classes of fewer than 10 rows: too few to train, split or evaluate on."""
    rare = [(name, count) for name, count in _counts(data) if count < _RARE]
    if not rare:
        return []
    names = [name for name, _ in rare]
    shown = some([f"{name!r} in {count}" for name, count in rare])
    return [
        Finding(
            "rare_class",
            "warning",
            f"{many(len(rare), 'class has', 'classes have')} fewer than {_RARE} rows: {shown}",
            sum(count for _, count in rare),
            data.places(data.labels.is_in(names).fill_null(False)),
            (data.target,),
            f"collect more, merge classes with data.columns.{as_key(data.target)}.values, "
            "or drop them",
        )
    ]


def ordered_target(data: ExaminedData) -> list[Finding]:
    """Serial dependence: the targets of adjacent rows agree far more often than by chance, so a
    random split leaks near copies. Rows sorted by class are exempt."""
    if data.task == "none" or len(data) < _FEWEST_IN_ORDER:
        return []
    is_sorted = data.task == "classes" and _is_sorted(data)
    alike = _alike_classes(data) if data.task == "classes" else _alike_numbers(data)
    if not alike:
        return []
    return [
        Finding(
            "ordered_target",
            "info" if is_sorted else "warning",
            alike,
            len(data),
            columns=(data.target,),
            fix="" if is_sorted else "use a time or group split: data.split",
        )
    ]


def _is_sorted(data: ExaminedData) -> bool:
    labels = data.labels.drop_nulls()
    return len(labels.rle()) <= 2 * labels.n_unique()


def _alike_classes(data: ExaminedData) -> str:
    labels = data.labels.drop_nulls()
    if len(labels) < _FEWEST_IN_ORDER or labels.n_unique() < 2:
        return ""
    same = float((labels[1:] == labels[:-1]).to_numpy().mean())
    shares = count_values(labels)["count"].to_numpy() / len(labels)
    chance = float((shares**2).sum())
    if same - chance < _EXCESS:
        return ""
    if _is_sorted(data):
        runs = len(labels.rle())
        return f"the rows are sorted by {data.target!r}: {runs} runs of one class each"
    return f"adjacent rows have the same class in {same:.1%} of the rows, {chance:.1%} by chance"


def _alike_numbers(data: ExaminedData) -> str:
    values = data.answers
    values = values[np.isfinite(values)]
    if len(values) < _FEWEST_IN_ORDER or not values.std():
        return ""
    centred = values - values.mean()
    correlation = float(centred[1:] @ centred[:-1] / (centred @ centred))
    if correlation < 0.5:
        return ""
    return f"the target of a row correlates {correlation:.2f} with that of the row before it"


def _counts(data: ExaminedData) -> list[tuple[str, int]]:
    """Rows of each class, the commonest first."""
    if data.task != "classes":
        return []
    counts = count_values(data.labels.drop_nulls())
    if counts.height > _MOST_CLASSES:
        return []
    return list(zip(counts["value"].to_list(), counts["count"].to_list(), strict=True))
