"""Data audit and quality checks before training, once per data version."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache, partial
from importlib.metadata import version
from pathlib import Path
from typing import Literal, final, get_args

import trainwright.data
from trainwright.contract.sections.data.data_traits import DELIVERY
from trainwright.core.files import Json, hash_file, hash_value, write_json
from trainwright.data.audit.audit_result import AuditResult, Test
from trainwright.data.dispatch import modality_of
from trainwright.data.modalities.modality import LookLimits, SplitSettings
from trainwright.data.quality.finding import (
    MOST_ROWS,
    Finding,
    Subset,
    one_a_kind,
    worst_first,
)
from trainwright.data.sources.cache import cache_value, open_cache
from trainwright.run.opening.open_folder import StartedRun
from trainwright.run.prepare.prepare_run import Ready, decided_task
from trainwright.run.screen import Screen, labelled

_PACKAGES = ("ftfy", "lightgbm", "numpy", "polars", "py3langid", "rensa", "scikit-learn", "scipy")
"""Arguments that the findings depend on."""

_STAGES = ("core", "contract", "data", "distributed")
"""`data` and the stages it is built on."""


@final
@dataclass(frozen=True, slots=True)
class Looked:
    """Findings of the leakage audit and the quality checks, and the rows they are based on: `rows`
    is the total, `audit` and `checks` are those examined by each. Of a finding with very many rows,
    only the first are kept. `left_to_train` names the checks that a training makes itself."""

    audited: tuple[AuditResult, ...]
    faults: tuple[Finding, ...]
    sample: Mapping[str, int]
    left_to_train: tuple[str, ...] = ()


def look_at_data(ready: Ready, most_rows: Literal["all"] | int = "all") -> Looked:
    """All findings of data that is ready to train; for a table on a sample of at most `most_rows`
    rows, which is then reported.

    The same data version is examined once by the same settings and code: findings are cached next
    to the rows, if the contract has a cache. Of a table of more than `MOST_CHECKED` rows, findings
    of fitted models are cached apart: `look_without_models` skips them.
    """
    if most_rows == "all" and _left_to_models(ready):
        return _together(_kept_look(ready, "all", "others"), _kept_look(ready, "all", "by_models"))
    return _kept_look(ready, most_rows, "all")


def look_without_models(ready: Ready) -> Looked:
    """The same, but for what fits models on the rows of a large table: a training looks for that,
    and takes the rest from here."""
    left = _left_to_models(ready)
    return replace(_kept_look(ready, "all", "others" if left else "all"), left_to_train=left)


def _together(others: Looked, by_models: Looked) -> Looked:
    said = [one for one in by_models.faults if one.kind == "sampled"]
    found = [one for one in (*others.faults, *by_models.faults) if one.kind != "sampled"]
    names = get_args(Test)
    audited = sorted((*others.audited, *by_models.audited), key=lambda one: names.index(one.test))
    return Looked(tuple(audited), (*said, *worst_first(found)), by_models.sample)


def _kept_look(ready: Ready, most_rows: Literal["all"] | int, subset: Subset) -> Looked:
    contract, prepared = ready.plan.contract, ready.prepared
    data: Json = contract.data.model_dump(mode="json", exclude={*DELIVERY, "audit"})
    about: Json = {"version": prepared.version, "data": data, "code": _code()}
    if most_rows != "all":
        about["rows"] = most_rows
    if subset != "all":
        about["subset"] = subset
    if ready.raw.decoded_rows < ready.raw.facts.rows:
        about["decoded"] = ready.raw.decoded_rows
    kept = open_cache(contract.data.cache_folder, ready.document.source.folder)
    look = partial(_look, ready, LookLimits(most_rows, subset))
    return _read(cache_value(kept, hash_value(about), f"findings in {contract.name}", look))


def look_uncached(ready: Ready, rows: int) -> Looked:
    """Findings of a sample of this size, uncached, so that the time is that of the checks."""
    return _read(_look(ready, LookLimits(rows)))


def record_found(
    found: Looked, findings: Sequence[Finding], started: StartedRun, screen: Screen
) -> None:
    """Record the findings before budget is spent, and report what needs attention. A resumed run is
    checked again: its data may have changed, and its disk may be full. Findings that only an
    experiment can confirm are not reported before it."""
    write_json(started.folder.data / "leakage.json", [one.to_json() for one in found.audited])
    write_json(started.folder.preflight, [finding.to_json() for finding in findings])
    open_ones = {one.message for one in found.audited if one.is_open}
    worth = [
        finding
        for finding in findings
        if finding.severity != "info" and finding.message not in open_ones
    ]
    for finding in one_a_kind(worth):
        screen.say(labelled("warning", finding.message))


def _left_to_models(ready: Ready) -> tuple[str, ...]:
    data = ready.plan.contract.data
    return modality_of(data.kind).left_to_models(ready.raw, data)


def _look(ready: Ready, limits: LookLimits) -> Json:
    contract, folder = ready.plan.contract, ready.document.source.folder
    split = SplitSettings(contract.data, decided_task(contract), contract.split_seed)
    modality = modality_of(contract.data.kind)
    found = modality.look(ready.raw, ready.prepared, split, folder, limits)
    return {
        "audited": _written(found.audited),
        "faults": _written(found.faults),
        "sample": dict(found.sample),
    }


def _written(found: Sequence[AuditResult | Finding]) -> Json:
    return [{**asdict(one), "rows": one.rows[:MOST_ROWS]} for one in found]


def _read(value: Json) -> Looked:
    return Looked(
        tuple(AuditResult(**_tuples(one)) for one in value["audited"]),
        tuple(Finding(**_tuples(one)) for one in value["faults"]),
        value["sample"],
    )


def _tuples(fields: Mapping[str, Json]) -> dict[str, Json]:
    return {name: tuple(one) if isinstance(one, list) else one for name, one in fields.items()}


def _code_files() -> list[Path]:
    """The code that reads data and decides what is found in it: its stages, and what calls them."""
    package = Path(trainwright.data.__file__).parents[1]
    stages = (path for stage in _STAGES for path in sorted((package / stage).rglob("*.py")))
    return [*stages, Path(__file__)]


@cache
def _code() -> str:
    """A hash of that code, and of the packages that it uses: what other code found is not
    believed."""
    package = Path(trainwright.data.__file__).parents[1]
    hashes = {str(file.relative_to(package)): hash_file(file) for file in _code_files()}
    return hash_value({**hashes, **{name: version(name) for name in _PACKAGES}})
