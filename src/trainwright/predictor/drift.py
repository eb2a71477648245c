"""Drift of new rows from the training profile of a bundle."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from trainwright.core.files import Json

FALSE_ALARMS = 0.01
"""Probability that any column of rows like those of the training is reported."""

LEAST_MOVED, LEAST_MOVED_OF_TAILS = 0.1, 0.05
"""Share of the rows that lie elsewhere, below which a shift is reported by no test. In the outer
twentieths half as many are twice as many as there were."""

_TAIL = 0.05
_QUANTILES = ("quantiles", "characters")
_MOST_NAMED = 5


def note_drift(training: Mapping[str, Json], new: Mapping[str, Json], units: int) -> list[str]:
    """A warning for each column of which more rows lie elsewhere than chance and `LEAST_MOVED`
    explain, the most first. Both are profiles by `Encoding.profile`, the first with its number of
    rows; `units` are the independent rows of the second. Dates go on by themselves.

    Numbers are compared at the quantiles of the training by the bound of Dvoretzky, Kiefer and
    Wolfowitz for both samples, categories by the bound of Weissman et al. (2003) on the total
    variation, each with its share of `FALSE_ALARMS`.
    """
    before, after = _columns(training), _columns(new)
    names = [name for name in before if name in after]
    if not (names and units and training.get("sampled")):
        return []
    spread, alarm = 1 / units + 1 / training["sampled"], FALSE_ALARMS / len(names)
    most = [
        (name, max(shifts))
        for name in names
        if (shifts := list(_shifts(before[name], after[name], spread, alarm)))
    ]
    most.sort(key=lambda shift: shift[1], reverse=True)
    others = [f"drift: {len(most) - _MOST_NAMED} other columns differ, too"]
    return [
        *(
            f"drift: {name!r} differs from its training rows: {text}"
            for name, (_, text) in most[:_MOST_NAMED]
        ),
        *others[: len(most) > _MOST_NAMED],
    ]


def _columns(profile: Mapping[str, Json]) -> dict[str, Mapping[str, Any]]:
    """What is known of each column, or of what images and documents have in their place."""
    found = {
        str(column["name"]): column
        for column in profile.get("columns", ())
        if column["type"] != "datetime"
    }
    measured = {name: value for name, value in profile.items() if isinstance(value, dict)}
    return found | {name: {"quantiles": value} for name, value in measured.items()}


def _shifts(
    before: Mapping[str, Any], after: Mapping[str, Any], spread: float, alarm: float
) -> Iterator[tuple[float, str]]:
    by_chance = math.sqrt(math.log(2 / alarm) / 2 * spread)
    missing = [one.get("missing_share", 0.0) for one in (before, after)]
    if (share := abs(missing[1] - missing[0])) > max(LEAST_MOVED, by_chance):
        yield share, f"{missing[1]:.0%} are missing, {missing[0]:.0%} were"
    for key in _QUANTILES:
        if before.get(key) and after.get(key):
            yield from _compare_quantiles(before[key], after[key], by_chance)
    if "categories" in before and "categories" in after:
        kinds = len(before["categories"]) + 1
        by_chance = math.sqrt((kinds * math.log(2) + math.log(1 / alarm)) / 2 * spread)
        share, name = _compare_categories(before, after)
        if share > max(LEAST_MOVED, by_chance):
            shares = [one["categories"].get(name, 0.0) for one in (after, before)]
            text = f"{shares[0]:.0%} are {name!r}, {shares[1]:.0%} were"
            yield share, f"{share:.0%} of the rows have other categories; {text}"


def _compare_quantiles(
    before: Mapping[str, float], after: Mapping[str, float], by_chance: float
) -> Iterator[tuple[float, str]]:
    """How many more or fewer of the new rows than of those before lie below a quantile of these."""
    levels, values = (np.array([*map(float, one)]) for one in (after, after.values()))
    for text, value in before.items():
        level = float(text)
        if value in values:
            # A repeated value: some rows lie below it, others up to it.
            least = levels[values < value].max(initial=0.0)
            most = levels[values > value].min(initial=1.0)
        else:
            least = np.interp(value, values, levels, left=0.0)
            most = np.interp(value, values, levels, right=1.0)
        share = float(max(least - level, level - most))
        is_tail = min(level, 1 - level) <= _TAIL
        if share > max(LEAST_MOVED_OF_TAILS if is_tail else LEAST_MOVED, by_chance):
            new, old = (one.get("0.5", math.nan) for one in (after, before))
            yield share, f"{share:.0%} of the rows moved; median {new:.4g}, {old:.4g} before"


def _compare_categories(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[float, str]:
    """Total variation of the shares of categories, and the one that changed most. A category that
    is too rare in the new rows to be listed is among the others."""
    rest, changes = float(after["other_share"]), {}
    for name, share in before["categories"].items():
        new = after["categories"].get(name)
        if new is None:
            new = min(share, rest)
            rest -= new
        changes[name] = new - share
    gained = {name: one for name, one in after["categories"].items() if name not in changes}
    lost = sum(-one for one in changes.values() if one < 0)
    lost += max(0.0, before["other_share"] - rest - sum(gained.values()))
    changes |= gained
    return lost, max(changes, key=lambda name: abs(changes[name]), default="")
