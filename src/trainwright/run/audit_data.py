"""Data audit and quality checks before training, once per data version."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache, partial
from importlib.metadata import version
from pathlib import Path
from typing import Literal, assert_never, final, get_args

import trainwright.data
from trainwright.contract.document import Contract
from trainwright.contract.sections.data import TableData, fold_count
from trainwright.contract.sections.data_base import DELIVERY
from trainwright.contract.sections.images import ImageData
from trainwright.contract.sections.tokens import TokenData
from trainwright.core.files import Json, write_json
from trainwright.core.hashing import hash_file, hash_value
from trainwright.data.audit.audit_result import AuditResult, Test
from trainwright.data.audit.image_overlap import audit_images
from trainwright.data.audit.run_audit import audit, audit_folds, audit_sampled
from trainwright.data.audit.text_overlap import audit_text
from trainwright.data.images.raw_images import RawImages
from trainwright.data.prepare_table import prepare_fold
from trainwright.data.quality.copies.near_duplicate_images import groups_of_raw
from trainwright.data.quality.finding import (
    MOST_ROWS,
    Finding,
    Subset,
    one_a_kind,
    worst_first,
)
from trainwright.data.quality.run_checks import BY_MODELS
from trainwright.data.read_table import RawTable
from trainwright.data.sources.cache import Tables, open_cache
from trainwright.data.subsample import thinned
from trainwright.data.text.prepare_text import RawTokens
from trainwright.data.types import Prepared
from trainwright.doctor import prepared_data_faults
from trainwright.doctor.prepared_data_faults import prepared_faults
from trainwright.run.open_folder import StartedRun
from trainwright.run.prepare_run import Ready, decided_task
from trainwright.run.screen import Screen
from trainwright.run.summary import labelled

_PACKAGES = ("ftfy", "lightgbm", "numpy", "polars", "py3langid", "rensa", "scikit-learn", "scipy")
"""Arguments that the findings depend on."""

_STAGES = ("core", "contract", "data")
"""`data` and the stages it is built on."""

MOST_AUDITED = 100_000
"""Sample size of the leakage audit, for rows in files or for more than `MOST_IN_MEMORY`."""

MOST_IN_MEMORY = 500_000
"""Up to this many rows in memory are audited in full."""

MOST_CHECKED = 50_000
"""Sample size of the quality checks for a larger table."""

MOST_JUDGED = 5_000
"""Sample size of larger image sets for model-based label checks, and for decoding by `check`."""

MOST_ROWS_JUDGED = 20_000
"""Sample size of model-based label checks, for a table of more than `MOST_CHECKED` rows."""


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
    if most_rows == "all" and _found_by_models(ready):
        return _together(_kept_look(ready, "all", "others"), _kept_look(ready, "all", "by_models"))
    return _kept_look(ready, most_rows, "all")


def look_without_models(ready: Ready) -> Looked:
    """The same, but for what fits models on the rows of a large table: a training looks for that,
    and takes the rest from here."""
    left = _found_by_models(ready)
    return replace(_kept_look(ready, "all", "others" if left else "all"), left_to_train=left)


def _found_by_models(ready: Ready) -> tuple[str, ...]:
    """What models find in a large table; folds are told apart while they are audited."""
    data = ready.plan.contract.data
    if not isinstance(data, TableData) or ready.raw.facts.rows <= MOST_CHECKED:
        return ()
    of_rows = BY_MODELS if data.quality.look == "all" else ()
    return of_rows if fold_count(data) else (*of_rows, "different rows")


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
    if isinstance(ready.raw, RawImages) and ready.raw.is_sample:
        about["decoded"] = len(ready.raw.decoded()[0])
    kept = _cache_of(contract, ready.document.source.folder)
    look = partial(_look, ready, most_rows, subset)
    return _read(kept.value(hash_value(about), f"findings in {contract.name}", look))


def look_uncached(ready: Ready, rows: int) -> Looked:
    """Findings of a sample of this size, uncached, so that the time is that of the checks."""
    return _read(_look(ready, rows))


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


def audit_prepared(
    contract: Contract, raw: RawTable, prepared: Prepared, subset: Subset = "all"
) -> tuple[AuditResult, ...]:
    """All audit tests of a table prepared by a resolved contract, with folds for each of them."""
    assert isinstance(contract.data, TableData), "a table"
    section, task, seed = contract.data, decided_task(contract), contract.split_seed
    if not (count := fold_count(section)):
        return audit(prepared, section, subset)
    assert task != "generation", "the rules refuse it for a table"
    folds = (prepare_fold(raw, section, task, seed, number) for number in range(count))
    return audit_folds(folds, section)


def _look(ready: Ready, most_rows: Literal["all"] | int, subset: Subset = "all") -> Json:
    contract, raw, prepared = ready.plan.contract, ready.raw, ready.prepared
    folder, data, rows = ready.document.source.folder, contract.data, raw.facts.rows
    sample = {"rows": rows, "checks": rows}
    match raw:
        case RawTable():
            assert isinstance(data, TableData), "a table"
            most = rows if most_rows == "all" else most_rows
            audited, looked_at = _audit_table(contract, raw, prepared, most, subset)
            checked = min(rows, most, MOST_CHECKED)
            judged = min(checked, MOST_ROWS_JUDGED) if checked < rows else rows
            judged = 0 if subset == "others" else judged
            sample |= {"audit": looked_at, "checks": checked, "labels": judged}
            found = _check_table(data, folder, raw, prepared, sample, subset)
            left = _found_by_models(ready) if subset == "others" else ()
            faults = (*_sampled_rows(raw, sample, left), *found)
        case RawImages():
            assert isinstance(data, ImageData), "images"
            groups = groups_of_raw(raw)
            audited = audit_images(raw, data, prepared, contract.split_seed, groups)
            decoded = len(raw.decoded()[0])
            sample |= {"checks": decoded, "labels": min(decoded, MOST_JUDGED)}
            found = prepared_faults(data, folder, raw, prepared, groups, MOST_JUDGED)
            faults = (*_sampled_images(sample), *found)
        case RawTokens():
            audited = audit_text(prepared)
            faults = prepared_faults(data, folder, raw, prepared)
        case _:
            assert_never(raw)
    return {"audited": _written(audited), "faults": _written(faults), "sample": sample}


def _audit_table(
    contract: Contract, raw: RawTable, prepared: Prepared, most: int, subset: Subset
) -> tuple[tuple[AuditResult, ...], int]:
    """Findings of the leakage audit on a sample of this size, and the sample size."""
    data, in_files = contract.data, raw.facts.placing.rows_in == "files"
    assert isinstance(data, TableData)
    in_part, rows = is_audited_in_part(raw, most), min(MOST_AUDITED, most)
    if fold_count(data) and subset == "by_models":
        # Each fold is prepared once, for all tests: these stand among the others.
        return (), rows if in_part and in_files else raw.facts.rows
    if not in_part:
        return audit_prepared(contract, raw, prepared, subset), raw.facts.rows
    fewer, some = thinned(raw, prepared, rows)
    if in_files:
        return audit_prepared(contract, fewer, some, subset), rows
    if fold_count(data):
        return audit_prepared(contract, raw, some), raw.facts.rows
    return audit_sampled(prepared, some, data, subset), rows


def is_audited_in_part(raw: RawTable, most: int = sys.maxsize) -> bool:
    """Is only a sample audited? Yes for more than `most` rows, or for many rows, fewer for rows in
    files."""
    in_files = raw.facts.placing.rows_in == "files"
    return raw.facts.rows > min(most, MOST_AUDITED if in_files else MOST_IN_MEMORY)


def _check_table(
    data: TableData,
    folder: Path,
    raw: RawTable,
    prepared: Prepared,
    sample: Mapping[str, int],
    subset: Subset,
) -> tuple[Finding, ...]:
    """Findings of the quality checks on a sample of this size, each with a note of that."""
    rows, judged = sample["checks"], sample["labels"]
    if raw.facts.rows == rows:
        return prepared_faults(data, folder, raw, prepared)
    fewer, some = thinned(raw, prepared, rows)
    found = prepared_faults(data, folder, fewer, some, most_judged=judged, subset=subset)
    looked_at = ((one, judged if one.kind == "label_error" else rows) for one in found)
    return tuple(
        replace(one, message=f"{one.message} (among the {count:,} rows looked at)")
        for one, count in looked_at
    )


def _sampled_rows(
    raw: RawTable, sample: Mapping[str, int], left: Sequence[str]
) -> tuple[Finding, ...]:
    """Sample sizes of the checks and the audit, where they are not complete, and the checks left to
    the training."""
    rows, checked, audited = sample["rows"], sample["checks"], sample["audit"]
    judged = sample["labels"]
    if min(checked, audited) == rows:
        return ()
    also = f", models judged the labels of {judged:,}" if 0 < judged < checked else ""
    if audited < rows:
        in_full = "; it compares equal rows, groups and times of the parts in full"
        in_full = "" if raw.facts.placing.rows_in == "files" else in_full
        also += f", the leakage audit looked at {audited:,}{in_full}"
    if left:
        also += f"; left to train, which fits models for it: {', '.join(left)}"
    message = (
        f"the checks looked at {checked:,} of {rows:,} rows, evenly spread: what is rare may not "
        f"be among them{also}"
    )
    return (Finding("sampled", "info", message, rows - min(checked, audited)),)


def _sampled_images(sample: Mapping[str, int]) -> tuple[Finding, ...]:
    """How many images were decoded, and of how many the labels were judged, where not all."""
    decoded, judged, rows = sample["checks"], sample["labels"], sample["rows"]
    if judged == rows:
        return ()
    message = f"labels of {judged:,} of {rows:,} images, evenly spread, were judged by models"
    if decoded < rows:
        message = (
            f"{decoded:,} of {rows:,} images, drawn at random, were decoded, and labels of "
            f"{judged:,} judged by models; of the others header, end and equal bytes were checked: "
            "the training decodes all"
        )
    return (Finding("sampled", "info", message, rows - judged),)


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


def _cache_of(contract: Contract, folder: Path) -> Tables:
    match contract.data:
        case TableData(reading=reading):
            return open_cache(reading.cache, folder)
        case ImageData(decoding=decoding):
            return open_cache(decoding.cache, folder)
        case TokenData(reading=reading):
            return open_cache(reading.cache, folder)
        case _:
            assert_never(contract.data)


def _code_files() -> list[Path]:
    """The code that reads data and decides what is found in it: its stages, and what calls them."""
    package = Path(trainwright.data.__file__).parents[1]
    stages = (path for stage in _STAGES for path in sorted((package / stage).rglob("*.py")))
    return [*stages, Path(prepared_data_faults.__file__), Path(__file__)]


@cache
def _code() -> str:
    """A hash of that code, and of the packages that it uses: what other code found is not
    believed."""
    package = Path(trainwright.data.__file__).parents[1]
    hashes = {str(file.relative_to(package)): hash_file(file) for file in _code_files()}
    return hash_value({**hashes, **{name: version(name) for name in _PACKAGES}})
