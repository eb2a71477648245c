"""Profile and signature of the columns of a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

import polars as pl

from trainwright.core.files import Json
from trainwright.data.base.row_distribution import rounded, safe_quantiles, safe_shares
from trainwright.data.columns.column_kinds import ColumnType
from trainwright.data.encoders.encoding import InputColumn


def profile_columns(frame: pl.DataFrame, columns: Sequence[ColumnType]) -> list[Json]:
    """Distribution of each column of typed rows."""
    return [_profile(frame[one.name], one) for one in columns if one.name in frame.columns]


def describe_columns(columns: Sequence[ColumnType], profile: Sequence[Json]) -> list[InputColumn]:
    """Columns that a model reads, with a typical value of their profile."""
    known = {one["name"]: one for one in profile}
    return [
        InputColumn(one.name, one.kind, _example(known.get(one.name, {})), one.missing > 0)
        for one in columns
    ]


def _profile(series: pl.Series, column: ColumnType) -> Json:
    about: dict[str, Json] = {
        "name": column.name,
        "type": column.kind,
        "missing_share": rounded(series.null_count() / max(1, len(series))),
    }
    known = series.drop_nulls()
    match column.kind:
        case "numeric":
            return {**about, "quantiles": safe_quantiles(known.cast(pl.Float64).to_numpy())}
        case "datetime":
            seconds = known.cast(pl.Datetime("us")).cast(pl.Int64).to_numpy() / 1e6
            return {**about, "quantiles_seconds": safe_quantiles(seconds)}
        case "text":
            lengths = known.cast(pl.String).str.len_chars().cast(pl.Float64).to_numpy()
            return {**about, "characters": safe_quantiles(lengths)}
        case _:
            return {**about, **safe_shares(known)}


def _example(column: Mapping[str, Json]) -> Json:
    """A typical value that many rows share: the median, or the most frequent category."""
    if categories := column.get("categories"):
        return next(iter(categories))
    if (median := column.get("quantiles", {}).get("0.5")) is not None:
        return float(f"{median:.3g}")
    if (seconds := column.get("quantiles_seconds", {}).get("0.5")) is not None:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d")
    return ""
