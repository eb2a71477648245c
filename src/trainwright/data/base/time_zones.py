"""Times with a zone, read as its clock shows them: an hour of the day is the same in summer."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone

import polars as pl

from trainwright.data.base.parse_cells import plain_type, to_moments

_OFFSET = r"^\s*\d{4}[-/]\d\d?[-/]\d\d?[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?\s*(Z|[+-]\d\d:?\d\d)\s*$"
_SUMMER = timedelta(hours=1)


def zones_of(frame: pl.DataFrame) -> dict[str, str]:
    """The zone of each column of times, and of text the offsets from UTC that its zone has in
    summer and winter (`UTC+01:00 UTC+02:00`). Columns in UTC, or of several zones, are absent."""
    zones = {}
    for series in frame.get_columns():
        if isinstance(series.dtype, pl.Datetime) and series.dtype.time_zone not in (None, "UTC"):
            zones[series.name] = str(series.dtype.time_zone)
        elif series.dtype == pl.String and series.head(1).str.contains(_OFFSET).all():
            written = series.drop_nulls().str.extract(_OFFSET).fill_null("Z").unique()
            apart = {
                datetime.strptime(offset, "%z").utcoffset() or timedelta() for offset in written
            }
            if any(apart) and max(apart) - min(apart) <= _SUMMER:
                if len(apart) == 1:
                    apart |= {min(apart) - _SUMMER, min(apart) + _SUMMER} - {timedelta()}
                zones[series.name] = " ".join(str(timezone(offset)) for offset in sorted(apart))
    return zones


def read_clock(times: pl.Series, zone: str) -> pl.Series:
    """Times by the clock of a zone as `zones_of` names it. Text with an offset that is none of the
    zone's stays."""
    if ":" in zone:
        is_zoned = isinstance(times.dtype, pl.Datetime) and bool(times.dtype.time_zone)
        texts = times.dt.strftime("%F %T%:z") if is_zoned else times
        if texts.dtype != pl.String:
            return times
        offsets = (re.escape(offset[3:]) or "Z|[+-]00:00" for offset in zone.split())
        pattern = "|".join(offsets).replace(":", ":?")
        clock = texts.str.replace(rf"(:\d\d(?:\.\d+)?)\s*(?:{pattern})\s*$", "${1}")
        has_other = not is_zoned or clock.str.contains(_OFFSET).any()
        return clock if has_other else times.dt.replace_time_zone(None)
    if times.dtype == pl.String and len(times) and times.str.contains(_OFFSET).all():
        times = to_moments(times.str.strip_chars(), "").series.dt.replace_time_zone("UTC")
    return plain_type(times, zone)
