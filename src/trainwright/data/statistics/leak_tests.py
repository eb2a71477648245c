"""Target leakage tests: columns that determine the target, alone or combined."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import final

import numpy as np
import numpy.typing as npt
import polars as pl

from trainwright.data.base.categories import count_values
from trainwright.data.base.inputs import Floats
from trainwright.data.base.messages import quoted
from trainwright.data.columns.column_kinds import ColumnType
from trainwright.data.statistics.dependence import LEAK, MADE_OF, far_rows, made_share, told_share
from trainwright.data.statistics.row_structure import RowStructure, explained_changes, names_rows

ALONE = 0.999
TOGETHER = 0.9999
SUSPICIOUS = 0.9
STANDS_OUT, COMES_NEAR = 0.98, 0.9
"""A ROC AUC beyond the first, with no other column beyond the second, may be the target plus noise.
Most legitimate measurements this strong have others nearly as strong: the petals of an iris, the
sizes of a tumour. One good sensor among poor ones has not."""

FIRM_LEAK, FIRM_SUSPICION = 0.98, 0.8
"""Shares of the target's changes in time that a leak of a series explains, and a suspect."""

_FEWEST_ROWS = 50
_ROWS_PER_VALUE = 5
_ROWS_PER_COLUMN = 10
_NEGLIGIBLE = 0.01
_FEWEST_BESIDE = 2
_MOST_FOR_PAIRS = 20
_FEWEST_OTHERS = 20


@final
@dataclass(frozen=True, slots=True)
class Leak:
    """Columns that jointly determine the target. `message` gives the evidence."""

    columns: tuple[str, ...]
    message: str


@final
@dataclass(frozen=True, slots=True)
class SuspectColumns:
    """Columns so strongly dependent on the target that they need review; they may be legitimate.
    `number` is the correlation, ROC AUC or share in `message`."""

    columns: tuple[str, ...]
    number: float
    message: str


def find_leaks(
    frame: pl.DataFrame,
    columns: Sequence[ColumnType],
    target: str,
    structures: Sequence[RowStructure] = (),
) -> tuple[Leak, ...]:
    """Columns of typed rows that determine the target (String labels or numbers).

    Units and clocks of the rows' `structures` are no leaks; in a series the relation must hold for
    changes in time, too.

    For classes, a column with one class per value or missing in one class only, or a rank AUC above
    0.999; for numbers, a correlation (of values or of ranks) beyond 0.999, a linear combination of
    values or of logarithms with R2 above 0.9999, or the product or ratio of two columns, each of
    them also without a few rows far from the others. Fewer than 50 rows are no evidence.
    """
    if frame.height < _FEWEST_ROWS:
        return ()
    keys, values = names_rows(structures), frame[target]
    columns = [column for column in columns if column.name not in keys]
    if values.dtype == pl.String:
        return tuple(leak for column in columns for leak in _class_leak(frame, column, values))

    def holds(leak: Leak) -> bool:
        return explained_changes(frame, structures, leak.columns, target) > FIRM_LEAK

    numeric = [column.name for column in columns if column.kind == "numeric"]
    alone = [leak for name in numeric for leak in _number_leak(frame, name, values) if holds(leak)]
    known = {leak.columns[0] for leak in alone}
    rest = [name for name in numeric if name not in known]
    found = list(alone)
    while together := (
        _combination(frame, rest, values, "a sum of")
        or _powers(frame, rest, values)
        or _pairs(frame, rest, values)
    ):
        # Without these columns others may give the target away too.
        found += filter(holds, together)
        rest = [name for name in rest if name not in together[0].columns]
    return tuple(found)


def find_dependent(
    frame: pl.DataFrame,
    names: Iterable[str],
    target: str,
    structures: Sequence[RowStructure] = (),
) -> Iterator[Leak]:
    """Columns of which one value explains nearly all of the target, or that the target explains."""
    keys = names_rows(structures)
    for name in names:
        if name in keys or explained_changes(frame, structures, (name,), target) <= FIRM_LEAK:
            continue
        if (share := told_share(frame[name], frame[target])) > LEAK:
            yield Leak((name,), f"{name!r} alone explains {share:.2%} of the target")
        elif (share := made_share(frame[name], frame[target])) > MADE_OF:
            yield Leak((name,), f"{name!r} is {share:.2%} explained by the target: target leakage")


def find_suspicions(
    frame: pl.DataFrame,
    columns: Sequence[ColumnType],
    target: str,
    structures: Sequence[RowStructure] = (),
) -> tuple[SuspectColumns, ...]:
    """Columns of typed rows, known to be no leaks, that depend very strongly on the target.

    For numbers, numeric columns with a correlation beyond 0.9; for two classes, a column with a
    rank AUC above 0.98 that stands out; for classes, two low-cardinality columns with one class per
    pair, which may be a valid rule.
    """
    if frame.height < _FEWEST_ROWS:
        return ()
    keys, values = names_rows(structures), frame[target]
    columns = [column for column in columns if column.name not in keys]
    if values.dtype == pl.String:
        alone = _stands_out(frame, columns, values) if values.n_unique() == 2 else ()
        return (*alone, *_class_pairs(frame, columns, values))
    found = []
    for column in columns:
        if column.kind != "numeric":
            continue
        correlation = _firm_correlation(frame[column.name], values)
        if abs(correlation) <= SUSPICIOUS:
            continue
        message = f"{column.name!r} has a correlation of {correlation:.3f} with the target"
        if explained_changes(frame, structures, (column.name,), target) <= FIRM_SUSPICION:
            if any(structure.is_series for structure in structures):
                continue
            message += ", but not from row to row: perhaps two trends"
        found.append(SuspectColumns((column.name,), correlation, message))
    return tuple(found)


def _class_leak(frame: pl.DataFrame, column: ColumnType, target: pl.Series) -> tuple[Leak, ...]:
    values = frame[column.name]
    few = values.n_unique() * _ROWS_PER_VALUE <= len(values)
    if column.kind in ("numeric", "categorical") and few:
        share = _explained(values, target)
        if share > ALONE:
            text = f"{column.name!r} alone predicts {share:.2%} of the rows that the "
            return (Leak((column.name,), text + "majority class gets wrong"),)
    elif (share := _explained(values.is_null(), target)) > ALONE:
        text = f"the missingness of {column.name!r} predicts {share:.2%} of the rows that"
        return (Leak((column.name,), text + " the majority class gets wrong"),)
    if column.kind in ("numeric", "datetime") and target.n_unique() == 2:
        auc = _either_auc(values, target)
        if auc > ALONE:
            return (Leak((column.name,), f"{column.name!r} alone has a ROC AUC of {auc:.4f}"),)
    return ()


def _stands_out(
    frame: pl.DataFrame, columns: Sequence[ColumnType], target: pl.Series
) -> tuple[SuspectColumns, ...]:
    """The single column with an outstanding AUC; categorical columns are compared by the share of
    the classes they explain."""
    tells = {}
    for column in columns:
        if column.kind == "numeric":
            tells[column.name] = _either_auc(frame[column.name], target)
        elif column.kind == "categorical":
            tells[column.name] = told_share(frame[column.name], target)
    if len(tells) <= _FEWEST_BESIDE:
        return ()
    (name, auc), (_, next_best), *_ = sorted(tells.items(), key=lambda pair: -pair[1])
    if auc <= STANDS_OUT or next_best > COMES_NEAR or frame[name].dtype == pl.String:
        return ()
    text = f"{name!r} alone has a ROC AUC of {auc:.4f}, and no other column is beyond "
    return (SuspectColumns((name,), auc, f"{text}{next_best:.2f}"),)


def _class_pairs(
    frame: pl.DataFrame, columns: Sequence[ColumnType], target: pl.Series
) -> tuple[SuspectColumns, ...]:
    """First pair of low-cardinality columns that jointly determines the class of every row."""
    others = len(target) - int(count_values(target)["count"][0])
    codes = {
        column.name: frame[column.name].rank("dense").fill_null(0).cast(pl.Int64)
        for column in columns
        if column.kind in ("numeric", "categorical")
        and frame[column.name].n_unique() <= _MOST_FOR_PAIRS
    }
    names = list(codes)[:_MOST_FOR_PAIRS] if others >= _FEWEST_OTHERS else []
    for one, other in combinations(names, 2):
        pairs = codes[one] * (_MOST_FOR_PAIRS + 2) + codes[other]
        if pairs.n_unique() * _ROWS_PER_VALUE > len(pairs):
            continue
        if (share := _explained(pairs, target)) > ALONE:
            text = f"{one!r} and {other!r} jointly predict {share:.2%} of the rows that"
            return (SuspectColumns((one, other), share, f"{text} the majority class gets wrong"),)
    return ()


def _explained(values: pl.Series, target: pl.Series) -> float:
    """Share of the rows outside the majority class that the majority class of each value predicts
    correctly, net of wrong predictions: 0 for an uninformative column, 1 for one class per
    value."""
    table = pl.DataFrame({"value": values, "label": target})
    counts = table.group_by("value", "label").len()
    right = int(counts.group_by("value").agg(pl.col("len").max())["len"].sum())
    commonest = int(count_values(target)["count"][0])
    others = len(target) - commonest
    return (right - commonest) / others if others else 0.0


def _either_auc(values: pl.Series, target: pl.Series) -> float:
    """max(AUC, 1 - AUC) of a column against two classes, over the present values."""
    present = values.is_not_null()
    values, labels = values.filter(present), target.filter(present)
    chosen = (labels == target.drop_nulls().min()).to_numpy()
    ones, zeros = int(chosen.sum()), int((~chosen).sum())
    if min(ones, zeros) < _ROWS_PER_VALUE or len(values) * 2 < len(target):
        return 0.5
    auc = rank_auc(values, chosen)
    return max(auc, 1 - auc)


def rank_auc(values: pl.Series, chosen: npt.NDArray[np.bool_]) -> float:
    """ROC AUC of values [N] for the chosen rows against the others (both non-empty): Mann-Whitney U
    over the product of their counts."""
    ranks = values.rank("average").to_numpy()
    ones, zeros = int(chosen.sum()), int((~chosen).sum())
    return (float(ranks[chosen].sum()) - ones * (ones + 1) / 2) / (ones * zeros)


def _number_leak(frame: pl.DataFrame, name: str, target: pl.Series) -> tuple[Leak, ...]:
    values = frame[name]
    linear = abs(_firm_correlation(values, target))
    if linear > ALONE:
        return (Leak((name,), f"{name!r} has a correlation of {linear:.5f} with the target"),)
    ranked = abs(_rank_correlation(values, target))
    if ranked > ALONE:
        return (Leak((name,), f"{name!r} has a rank correlation of {ranked:.5f} with the target"),)
    return ()


def _correlation(values: pl.Series, target: pl.Series) -> float:
    """Pearson correlation over rows with both values; 0 where undefined."""
    present = (values.is_not_null() & target.is_not_null()).to_numpy()
    if int(present.sum()) < _FEWEST_ROWS:
        return 0.0
    x = values.to_numpy()[present].astype(np.float64)
    y = target.to_numpy()[present].astype(np.float64)
    return _pearson(x, y)


def _firm_correlation(values: pl.Series, target: pl.Series) -> float:
    """Pearson's correlation, with or without the few rows that lie farthest away: the weaker. One
    row of totals makes a correlation of 0.9999 of any two columns."""
    whole = _correlation(values, target)
    if abs(whole) <= SUSPICIOUS:
        return whole
    both = pl.DataFrame({"values": values, "target": target}).drop_nulls()
    numbers = both.cast(pl.Float64).to_numpy()
    rest = numbers[~far_rows(numbers)]
    return min(whole, _pearson(rest[:, 0], rest[:, 1]), key=abs)


def _pearson(x: Floats, y: Floats) -> float:
    x, y = x - x.mean(), y - y.mean()
    scale = float(np.sqrt((x @ x) * (y @ y)))
    return float(x @ y) / scale if scale > 0 else 0.0


def _rank_correlation(values: pl.Series, target: pl.Series) -> float:
    """Spearman correlation over rows with both values."""
    both = pl.DataFrame({"values": values, "target": target}).drop_nulls()
    return _correlation(both["values"].rank("average"), both["target"].rank("average"))


def _powers(frame: pl.DataFrame, names: list[str], target: pl.Series) -> tuple[Leak, ...]:
    """Linear combination of the logarithms of the positive columns: a product of powers."""
    positive = [name for name in names if (frame[name] > 0).all()]
    if not (target > 0).all():
        return ()
    logs = frame.select(pl.col(positive).cast(pl.Float64).log())
    wanted = target.cast(pl.Float64).log()
    return _combination(logs, positive, wanted, "a sum of the logarithms of")


def _pairs(frame: pl.DataFrame, names: list[str], target: pl.Series) -> tuple[Leak, ...]:
    """First pair of columns whose product or ratio is the target."""
    for one, other in combinations(names[:_MOST_FOR_PAIRS], 2):
        first, second = frame[one].cast(pl.Float64), frame[other].cast(pl.Float64)
        for text, values in (
            (f"{one!r} times {other!r}", first * second),
            (f"{one!r} over {other!r}", first / second.replace(0.0, None)),
            (f"{other!r} over {one!r}", second / first.replace(0.0, None)),
        ):
            related = abs(_correlation(values, target))
            # One outlier inflates the correlation of products, but not of their ranks.
            if related > ALONE and abs(_rank_correlation(values, target)) > ALONE:
                text += f" has a correlation of {related:.5f} with the target"
                return (Leak((one, other), text),)
    return ()


def _combination(
    frame: pl.DataFrame, names: list[str], target: pl.Series, what: str
) -> tuple[Leak, ...]:
    """Columns with a linear combination (described by `what`) equal to the target, also without
    the few rows farthest away."""
    names = sorted(names, key=lambda name: frame[name].null_count())
    while names:
        whole = frame.select(names).with_columns(target.alias("\x00target")).drop_nulls()
        if whole.height >= max(_FEWEST_ROWS, _ROWS_PER_COLUMN * len(names)):
            break
        names.pop()
    else:
        return ()
    values = whole.select(names).to_numpy().astype(np.float64)
    wanted = whole["\x00target"].to_numpy().astype(np.float64)
    coefficients, explained = _fitted(values, wanted)
    if explained > TOGETHER:
        others = ~far_rows(np.column_stack([values, wanted]))
        explained = min(explained, _fitted(values[others], wanted[others])[1])
    if explained <= TOGETHER:
        return ()
    largest = float(np.abs(coefficients).max())
    share = np.abs(coefficients) / largest
    members = tuple(name for name, part in zip(names, share, strict=True) if part > _NEGLIGIBLE)
    return (Leak(members, f"{what} {quoted(members)} has an R2 of {explained:.6f}"),)


def _fitted(values: Floats, wanted: Floats) -> tuple[Floats, float]:
    """Least-squares fit of `wanted` [N] by columns [N, F], all standardised: coefficients, and R2,
    which is 0 where `wanted` is constant."""
    columns, target = _standardised(values), _standardised(wanted[:, None])[:, 0]
    coefficients = np.asarray(np.linalg.lstsq(columns, target, rcond=None)[0], np.float64)
    left = target - columns @ coefficients
    size = float(target @ target)
    return coefficients, 1 - float(left @ left) / size if size else 0.0


def _standardised(values: Floats) -> Floats:
    """Columns [N, F] at mean 0 and standard deviation 1; constant columns become 0."""
    centered: Floats = values - values.mean(axis=0)
    deviation = centered.std(axis=0)
    scaled: Floats = centered / np.where(deviation > 0, deviation, 1.0)
    return scaled
