"""Uninformative columns: constants, identifiers, redundant columns; and columns that tell the
target."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np
import polars as pl

from trainwright.contract.key_paths import as_key
from trainwright.core.files import hash_bytes
from trainwright.core.formatting import many
from trainwright.data.base.categories import count_values
from trainwright.data.base.inputs import Floats, Integers
from trainwright.data.base.messages import quoted, some
from trainwright.data.base.parse_cells import to_labels
from trainwright.data.base.row_storage import spread_rows
from trainwright.data.columns.column_kinds import ColumnType, Kind, name_tokens
from trainwright.data.columns.identifiers import MOSTLY_DIFFERENT, says_id
from trainwright.data.columns.resolve_doubts import FREE_TEXT
from trainwright.data.quality.copies.duplicates import first_of_each
from trainwright.data.quality.examined_data import ColumnView, ExaminedData
from trainwright.data.quality.finding import Finding
from trainwright.data.statistics.dependence import (
    SUSPICIOUS,
    far_rows,
    told_share,
)
from trainwright.data.statistics.leak_tests import (
    FIRM_SUSPICION,
    find_dependent,
    find_leaks,
    find_suspicions,
)
from trainwright.data.statistics.row_structure import (
    RowStructure,
    explained_changes,
    find_structures,
    names_rows,
)

_CODES = 100
_DENSE = 0.4
_EVEN = 0.12
_ROWS_PER_CODE = 5
_MOST_DISTINCT = 1000
_LINEAR = 0.9999
_PRODUCT = 0.99
_MOST_FOR_PRODUCTS = 12
_RARE_ROWS = 10
_RARE_SHARE = 0.001
_FEWEST_ROWS = 4
_FEW_VALUES = 50
_FEW_NUMBERS = 20
_FEWEST_FEATURES = 10


def constant_columns(data: ExaminedData) -> list[Finding]:
    """Columns with at most one distinct value."""
    found = []
    for look in data.features:
        if look.kind == "nested" or look.cells.drop_nulls().n_unique() > 1:
            continue
        empty = look.kind == "empty"
        if not empty and look.cells.null_count():
            continue
        message = (
            f"{look.name!r} has no value in any row"
            if empty
            else f"{look.name!r} is constant: {str(look.cells[0])[:60]!r} in every row"
        )
        fix = "excluded automatically; check why it is constant"
        found.append(Finding("constant", "warning", message, 1, columns=(look.name,), fix=fix))
    return found


def identifier(data: ExaminedData) -> list[Finding]:
    """Columns that name or number the rows, rows that repeat such a name, and integers that are
    codes, not quantities."""
    found = []
    for look in data.features:
        text = (
            look.reason if look.reason.startswith(("identifier", "values rarely", "free")) else ""
        )
        if look.kind == "text" and len(data.features) == 1:
            continue
        if not text and look.kind == "numeric":
            text = _numbered(look)
        if text:
            rows = _repeated(look)
            found.append(
                Finding(
                    "identifier",
                    "warning" if len(rows) else "info",
                    f"{look.name!r} identifies rows"
                    + (_said(look, rows) if len(rows) else f" rather than describing them: {text}"),
                    len(rows) or 1,
                    data.places(rows),
                    (look.name,),
                    fix=_use_of_names(look),
                )
            )
    return found


def _repeated(look: ColumnView) -> Integers:
    """Rows that repeat the value of an earlier one in a column named as an identifier, if they are
    few."""
    present = look.cells.drop_nulls()
    named = look.reason.startswith("identifier") and says_id(name_tokens(look.name))
    if not named or present.n_unique() < MOSTLY_DIFFERENT * len(present):
        return np.empty(0, dtype=np.int64)
    again = look.cells.is_not_null() & ~look.cells.is_first_distinct()
    return np.flatnonzero(again.to_numpy())


def _said(look: ColumnView, rows: Integers) -> str:
    values = to_labels(look.cells.gather(rows)).unique(maintain_order=True).to_list()
    again = many(len(rows), "row repeats", "rows repeat")
    return f", and {again} the value of an earlier one: {quoted(values, 3)}"


def _use_of_names(look: ColumnView) -> str:
    """What to do with a column that identifies rows."""
    if look.reason.startswith(FREE_TEXT):
        name = as_key(look.name)
        return f"list it in data.exclude, or use its words: data.columns.{name}.kind: text"
    return (
        "list it in data.exclude; if it names groups of related rows, split by it: "
        f"data.split: {{kind: group, column: {look.name}}}"
    )


def _numbered(look: ColumnView) -> str:
    """Consecutive codes: integers from 0 or 1 on with few gaps, each on many rows, and uniformly
    distributed (Kolmogorov-Smirnov distance below 0.12)."""
    values = look.values.drop_nulls()
    distinct = values.n_unique()
    if distinct < _CODES or len(values) < _ROWS_PER_CODE * distinct:
        return ""
    numbers = values.to_numpy()
    low, high = float(numbers.min()), float(numbers.max())
    whole = bool((numbers == np.floor(numbers)).all())
    if not whole or low not in (0.0, 1.0) or distinct < _DENSE * (high - low + 1):
        return ""
    even = np.linspace(0, 1, len(numbers))
    if float(np.abs((np.sort(numbers) - low) / (high - low) - even).max()) > _EVEN:
        return ""
    return f"{distinct:,} integers from {low:.0f} to {high:.0f}, uniformly distributed"


def redundant_columns(data: ExaminedData) -> list[Finding]:
    """Redundant columns: copies, one-to-one maps, linear relations and products of two others."""
    same = _same(data)
    pairs = {one.columns for one in same}
    others = (one for one in (*_renamed(data), *_linear(data)) if one.columns not in pairs)
    return [*same, *others]


def _same(data: ExaminedData) -> list[Finding]:
    """Columns equal in every row."""
    alike: dict[str, list[str]] = {}
    for look in data.features:
        if look.kind in ("nested", "empty") or look.values.drop_nulls().n_unique() < 2:
            continue
        key = hash_bytes(str(look.kind).encode() + look.values.hash(seed=0).to_numpy().tobytes())
        alike.setdefault(key, []).append(look.name)
    return [
        replace(
            _redundant((first, other), f"{other!r} repeats {first!r} in every row"),
            severity="warning",
        )
        for first, *others in alike.values()
        for other in others
        if data.of_name(first).values.equals(data.of_name(other).values, check_names=False)
    ]


def few_rows(data: ExaminedData) -> list[Finding]:
    """More features (numeric columns and categories) than training rows."""
    columns = len([look for look in data.telling if look.kind != "text"])
    rows = int((data.parts == 0).sum())
    if not rows or columns < _FEWEST_FEATURES or columns <= rows:
        return []
    text = f"{columns:,} features and {rows:,} training rows: a model can fit any target with them"
    fix = "collect more rows, or list uninformative columns in data.exclude"
    return [Finding("few_rows", "warning", text, rows, fix=fix)]


def _renamed(data: ExaminedData) -> list[Finding]:
    """Columns related by a one-to-one map."""
    few = [
        (look, distinct)
        for look in data.telling
        if look.kind in ("categorical", "numeric")
        and 2 <= (distinct := look.values.n_unique()) <= _MOST_DISTINCT
        and _ROWS_PER_CODE * distinct <= len(data)
    ]
    # Under such a map the first occurrences of the values coincide.
    alike: dict[str, list[int]] = {}
    for at, (look, _) in enumerate(few):
        first = hash_bytes(first_of_each(look.values.to_frame()).tobytes())
        alike.setdefault(first, []).append(at)
    found = []
    for i, j in sorted(pair for members in alike.values() for pair in combinations(members, 2)):
        (one, distinct), (other, _) = few[i], few[j]
        if one.kind == other.kind == "numeric" and distinct > _FEW_VALUES:
            continue
        text = f"each of its {distinct} values goes with one value of {other.name!r}"
        found.append(_redundant((one.name, other.name), f"{one.name!r} is redundant: {text}"))
    return found


def _linear(data: ExaminedData) -> list[Finding]:
    looks = [look for look in data.telling if look.kind == "numeric"]
    looks = [look for look in looks if look.values.n_unique() > _FEW_VALUES or len(data) < 100]
    if len(looks) < 2 or len(data) < 50:
        return []
    related = correlations(data, looks)
    found = []
    for i, j in np.argwhere(np.abs(np.triu(related, 1)) > _LINEAR).tolist():
        if not _hold(looks[i].numbers, looks[j].numbers):
            continue
        one, other = looks[i].name, looks[j].name
        text = f"correlation {related[i, j]:.5f} with {other!r}"
        found.append(_redundant((one, other), f"{one!r} is redundant: {text}"))
    if len(looks) <= _MOST_FOR_PRODUCTS or len(data.features) <= 2 * _MOST_FOR_PRODUCTS:
        numeric = [look for look in data.telling if look.kind == "numeric"][:_MOST_FOR_PRODUCTS]
        found += _products(data, numeric)
    return found


def _hold(one: Floats, other: Floats) -> bool:
    """Whether two columns go together also without the few rows that lie farthest away."""
    both = np.stack([one, other], axis=1)
    both = both[np.isfinite(both).all(axis=1)]
    rest = both[~far_rows(both)]
    product = _standardised(rest[:, 0]) @ _standardised(rest[:, 1])
    return abs(float(product)) > _LINEAR * len(rest)


def correlations(data: ExaminedData, looks: list[ColumnView]) -> Floats:
    """Pearson correlation matrix [F, F]; missing values are set to the column mean."""
    values = np.stack([_standardised(look.numbers) for look in looks], axis=1)
    related: Floats = values.T @ values / len(data)
    return related


def _standardised(values: Floats) -> Floats:
    """Values [N] at mean 0 and standard deviation 1; 0 where missing or constant."""
    centred = values - np.nanmean(values)
    standard: Floats = np.nan_to_num(centred / max(float(np.nanstd(values)), 1e-300))
    return standard


def _products(data: ExaminedData, looks: list[ColumnView]) -> list[Finding]:
    if len(looks) < 3:
        return []
    found = []
    alone = correlations(data, looks)
    numbers = [look.numbers for look in looks]
    standard = [_standardised(values) for values in numbers]
    for (i, one), (j, other) in combinations(enumerate(looks), 2):
        product = _standardised(numbers[i] * numbers[j])
        for k, whole in enumerate(looks):
            if k in (i, j) or max(abs(alone[i, k]), abs(alone[j, k])) > 0.95:
                continue
            explained = float(product @ standard[k] / len(data)) ** 2
            if explained > _PRODUCT:
                names = (whole.name, one.name, other.name)
                text = f"about {one.name!r} times {other.name!r} (R2 {explained:.4f})"
                found.append(_redundant(names, f"{whole.name!r} is {text}"))
    return found


def _redundant(names: tuple[str, ...], message: str) -> Finding:
    fix = "keep one of them: copies share importance, and linear weights are not unique"
    return Finding("redundant_columns", "info", message, len(names), columns=names, fix=fix)


def rare_category(data: ExaminedData) -> list[Finding]:
    """Rare values of low-cardinality columns."""
    found = []
    for look in data.telling:
        values = look.values.drop_nulls()
        distinct = values.n_unique()
        most = _FEW_NUMBERS if look.kind == "numeric" else _FEW_VALUES
        if look.kind not in ("categorical", "numeric") or distinct > most or len(values) < 100:
            continue
        counts = count_values(values)
        count = pl.col("count")
        few = counts.filter(
            (count < _FEWEST_ROWS) | ((count <= _RARE_ROWS) & (count <= _RARE_SHARE * len(values)))
        )
        if not few.height or few.height > distinct / 2:
            continue
        rare = few["value"].to_list()
        pairs = zip(rare, few["count"].to_list(), strict=True)
        shown = some([f"{_short(value)!r} in {many(count, 'row')}" for value, count in pairs])
        rows = look.values.is_in(rare).fill_null(False)
        found.append(
            Finding(
                "rare_category",
                "info",
                f"{look.name!r} has rare values: {shown}",
                int(few["count"].sum()),
                data.places(rows),
                (look.name,),
                "data.features.rare_below merges them; a slice of them cannot be evaluated",
            )
        )
    return found


def _short(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)[:40]


_MOST_ROWS = 50_000
_FIX = "list the column in data.exclude if it is not known when a prediction is made"


def leaks(data: ExaminedData) -> list[Finding]:
    """Columns that determine the target or derive from it, and columns suspiciously dependent on
    it. More than 50,000 labelled rows are subsampled evenly."""
    if data.task == "none":
        return []
    looks = [look for look in data.telling if look.kind in ("numeric", "categorical", "datetime")]
    target = data.labels if data.task == "classes" else data.of_name(data.target).values
    whole = pl.DataFrame([look.values for look in data.looks]).with_columns(
        target.alias(data.target)
    )
    structures = find_structures(whole, data.target)
    rows = target.is_not_null().arg_true()
    frame = whole[rows.gather(spread_rows(len(rows), _MOST_ROWS))]
    columns = [ColumnType(look.name, _kind(look), "", 0, 0, "") for look in looks]
    leaking = find_leaks(frame, columns, data.target, structures)
    found = [_leak(leak.columns, leak.message) for leak in leaking]
    alone = {finding.columns for finding in found}
    honest = [column for column in columns if (column.name,) not in alone]
    suspicions = [
        _suspicion(each.columns, each.message)
        for each in find_suspicions(frame, honest, data.target, structures)
    ]
    said = {name for finding in (*found, *suspicions) for name in finding.columns}
    candidates = [
        column.name
        for column in columns
        if column.kind != "datetime" and column.name not in names_rows(structures)
    ]
    shares = _shares(frame, candidates, data.target, structures)
    return [*found, *suspicions, *(one for one in shares if not said.intersection(one.columns))]


def _shares(
    frame: pl.DataFrame, names: Sequence[str], target: str, structures: Sequence[RowStructure]
) -> Iterator[Finding]:
    """Features with a strong non-linear dependence with the target, in either direction."""
    leaks = list(find_dependent(frame, names, target, structures))
    yield from (_leak(leak.columns, leak.message) for leak in leaks)
    rest = set(names) - {name for leak in leaks for name in leak.columns}
    for name in sorted(rest, key=names.index):
        share = told_share(frame[name], frame[target])
        firm = explained_changes(frame, structures, (name,), target)
        if share > SUSPICIOUS and firm > FIRM_SUSPICION:
            yield _suspicion((name,), f"{name!r} alone explains {share:.2%} of the target")


def _kind(look: ColumnView) -> Kind:
    match look.kind:
        case "numeric" | "datetime":
            return look.kind
        case _:
            return "categorical"


def _leak(columns: tuple[str, ...], message: str) -> Finding:
    return Finding("leak", "error", message, len(columns), columns=columns, fix=_FIX)


def _suspicion(columns: tuple[str, ...], message: str) -> Finding:
    return Finding(
        "suspicious_feature", "warning", message, len(columns), columns=columns, fix=_FIX
    )
