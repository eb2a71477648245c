"""Data section: files, parts, split, columns and exclusions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import final

from trainwright.core.files import Json
from trainwright.core.formatting import show_bytes
from trainwright.report.figures.confusion_and_histograms import DistributionView, view_distributions
from trainwright.report.format import NOTHING, count_text, show_share, show_value
from trainwright.report.load_run import Contents, FindingRow

_MOST_CLASSES = 10
_ORDER = ("train", "validation", "test")
_HASH_LETTERS = 12


@final
@dataclass(frozen=True, slots=True)
class FileRow:
    """One input file."""

    path: str
    sha256: str
    size: str
    rows: int


@final
@dataclass(frozen=True, slots=True)
class PartRow:
    """One part; `more` are the values of `DataView.part_columns`."""

    name: str
    rows: int
    more: tuple[str, ...]


@final
@dataclass(frozen=True, slots=True)
class ColumnRow:
    """One column of the training file."""

    name: str
    kind: str
    missing: str
    distinct: int
    reason: str


@final
@dataclass(frozen=True, slots=True)
class ExcludedData:
    """Excluded data and the reason."""

    what: str
    why: str


@final
@dataclass(frozen=True, slots=True)
class DataView:
    """The whole section."""

    version: str
    files: tuple[FileRow, ...]
    split: str
    parts: tuple[PartRow, ...]
    part_columns: tuple[str, ...]
    checks: tuple[str, ...]
    columns: tuple[ColumnRow, ...]
    distributions: tuple[DistributionView, ...]
    excluded: tuple[ExcludedData, ...]
    notes: tuple[str, ...]
    findings: tuple[FindingRow, ...]
    done: tuple[str, ...]


def view_data(contents: Contents) -> tuple[DataView, ...]:
    """The section, or empty if the folder has no data files."""
    manifest, split = contents.manifest, contents.split
    if not manifest and not split:
        return ()
    facts: Mapping[str, Json] = manifest.get("facts") or {}
    names, parts = _parts(facts, split)
    columns = facts.get("columns") or []
    return (
        DataView(
            version=shorten_hash(str(manifest.get("version", ""))),
            files=tuple(_file(one) for one in facts.get("files") or []),
            split=f"{split['kind']}: {split['reason']}" if split.get("kind") else "",
            parts=parts,
            part_columns=names,
            checks=_checks(split),
            columns=tuple(_column(one, facts.get("rows") or 0) for one in columns),
            distributions=view_distributions(contents.distributions),
            excluded=_excluded(columns, facts, contents.plan),
            notes=tuple(str(note) for note in manifest.get("notes") or []),
            findings=contents.findings,
            done=tuple(str(one["message"]) for one in manifest.get("done") or []),
        ),
    )


def shorten_hash(text: str) -> str:
    """Abbreviated hash."""
    return f"{text[:_HASH_LETTERS]}…" if len(text) > _HASH_LETTERS else text


def _file(one: Mapping[str, Json]) -> FileRow:
    return FileRow(
        str(one["path"]),
        shorten_hash(str(one["sha256"])),
        show_bytes(one["size_bytes"]),
        int(one["rows"]),
    )


def _parts(
    facts: Mapping[str, Json], split: Mapping[str, Json]
) -> tuple[tuple[str, ...], tuple[PartRow, ...]]:
    rows: Mapping[str, int] = split.get("rows") or facts.get("part_rows") or {}
    described: dict[str, Mapping[str, str]] = {}
    shares = split.get("class_shares") or {}
    classes = sorted({label for each in shares.values() for label in each})
    if len(classes) <= _MOST_CLASSES:
        for label in classes:
            described[f"share of {label}"] = {
                part: show_share(each.get(label, 0.0)) for part, each in shares.items()
            }
    if means := split.get("target_mean"):
        described["mean of target"] = {part: show_value(mean) for part, mean in means.items()}
    if groups := split.get("groups"):
        described["groups"] = {part: f"{count:,}" for part, count in groups.items()}
    if ranges := split.get("time_ranges"):
        described["from"] = {part: str(ends[0]) for part, ends in ranges.items()}
        described["to"] = {part: str(ends[1]) for part, ends in ranges.items()}
    parts = tuple(
        PartRow(part, int(count), tuple(each.get(part, NOTHING) for each in described.values()))
        for part, count in sorted(rows.items(), key=_place)
    )
    return tuple(described), parts


def _place(item: tuple[str, int]) -> int:
    return _ORDER.index(item[0]) if item[0] in _ORDER else len(_ORDER)


def _checks(split: Mapping[str, Json]) -> tuple[str, ...]:
    found: list[str] = []
    if split.get("groups"):
        crossing = count_text(split.get("groups_on_two_sides", 0), "group is", "groups are")
        found.append(f"{crossing} in more than one part.")
    if split.get("time_ranges"):
        late = split.get("future_rows_in_training", 0)
        found.append(
            f"{count_text(late, 'training row is', 'training rows are')} later than a validation "
            "or test row."
        )
    if "duplicate_rows" in split:
        same = count_text(split["duplicate_rows"], "row equals", "rows equal")
        found.append(
            f"{same} a training row in every feature and the target, in validation or test."
        )
    if unused := split.get("left_out"):
        stand = count_text(unused, "row is", "rows are")
        found.append(f"{stand} in no part: inside the gap, or older than the window.")
    return tuple(found)


def _column(one: Mapping[str, Json], rows: int) -> ColumnRow:
    missing = int(one["missing"])
    share = f" ({show_share(missing / rows)})" if missing and rows else ""
    return ColumnRow(
        str(one["name"]),
        str(one["kind"]),
        f"{missing:,}{share}",
        int(one["distinct"]),
        str(one["reason"]),
    )


def _excluded(
    columns: Sequence[Mapping[str, Json]], facts: Mapping[str, Json], plan: Mapping[str, Json]
) -> tuple[ExcludedData, ...]:
    ignored = {
        str(one["name"]): str(one["reason"]) for one in columns if one.get("kind") == "ignored"
    }
    section = (plan.get("contract") or {}).get("data") or {}
    unwanted = {str(name): "excluded by the contract" for name in section.get("exclude") or []}
    found = [ExcludedData(f"column {name}", why) for name, why in {**unwanted, **ignored}.items()]
    if missing := (facts.get("target") or {}).get("missing"):
        found.append(ExcludedData(count_text(int(missing), "row", "rows"), "the target is missing"))
    return tuple(found)
