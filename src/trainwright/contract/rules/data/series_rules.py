"""Rules on series: what their columns are, and how far forecasts reach."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.contract.document import Contract
from trainwright.contract.sections.data.series import SeriesData
from trainwright.core.errors import Problem


def roles_are_apart(
    _contract: Contract, data: SeriesData, _written: frozenset[str]
) -> Iterator[Problem]:
    """A column is the target, the time, the series, a known one or an excluded one."""
    seen: dict[str, str] = {}
    named = [("data.target", data.target), ("data.time", data.time)]
    named += [("data.series", data.series)] if data.series else []
    named += [(f"data.known.{at}", name) for at, name in enumerate(data.known)]
    named += [(f"data.exclude.{at}", name) for at, name in enumerate(data.exclude)]
    for path, name in named:
        if name in seen:
            yield Problem(
                f"the column {name!r} is named twice",
                path=path,
                found=name,
                expected=f"another column than {seen[name]}",
                fix="remove it from one of the two",
            )
        seen.setdefault(name, path)


def parts_hold_horizon(
    _contract: Contract, data: SeriesData, _written: frozenset[str]
) -> Iterator[Problem]:
    """Validation and test part hold a whole horizon."""
    for key in ("validation_steps", "test_steps"):
        steps = getattr(data, key)
        if steps != "auto" and steps < data.horizon:
            yield Problem(
                "the part is shorter than the horizon",
                path=f"data.{key}",
                found=f"{steps}",
                expected=f"at least {data.horizon}",
                fix=f"write {key}: {data.horizon}, or lower data.horizon",
            )


def ratio_needs_level(
    _contract: Contract, data: SeriesData, _written: frozenset[str]
) -> Iterator[Problem]:
    """A relation is one to a level."""
    if data.relative_to == "nothing" and data.relation != "auto":
        yield Problem(
            "a relation to nothing has no effect",
            path="data.relation",
            found=data.relation,
            expected="relation only beside relative_to: last_value or season_mean",
            fix="remove relation, or change relative_to",
        )


def past_is_made_here(
    _contract: Contract, data: SeriesData, _written: frozenset[str]
) -> Iterator[Problem]:
    """Lags of series are not those of a table."""
    if data.features.history != "off":
        yield Problem(
            "series have lags of their own",
            path="data.features.history",
            expected="data.lags",
            fix="remove data.features.history",
        )


def one_family_forecasts(
    contract: Contract, _data: SeriesData, _written: frozenset[str]
) -> Iterator[Problem]:
    """A selection among families encodes rows of a table again for each."""
    model = contract.model
    if model.traits.trained_by == "selection":
        yield Problem(
            "forecasts are learned by one kind of model",
            path="model.kind",
            found=model.kind,
            expected="a kind of model, such as boosting or mlp",
            fix="train each in a run of its own, and compare the runs: trainwright runs compare",
        )


def latency_is_of_rows(
    contract: Contract, _data: SeriesData, _written: frozenset[str]
) -> Iterator[Problem]:
    """A forecast reads the history of its series, of any length."""
    if contract.serving.latency_ms != "unlimited":
        yield Problem(
            "the time of a forecast depends on the history that it is given",
            path="serving.latency_ms",
            found=f"{contract.serving.latency_ms:g}",
            expected="a limit of latency only for predictions of rows",
            fix="remove serving.latency_ms",
        )


SERIES_RULES = (
    roles_are_apart,
    parts_hold_horizon,
    ratio_needs_level,
    past_is_made_here,
    one_family_forecasts,
    latency_is_of_rows,
)
"""All of them, for the rules of each kind of data."""
