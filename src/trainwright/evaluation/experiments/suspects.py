"""Audit findings to test by experiment, and the contract line that resolves each."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, assert_never, final

from trainwright.contract.sections.data.data import Data
from trainwright.contract.sections.data.quality import Accepted, BindingFinding
from trainwright.contract.sections.data.table_data import TableData
from trainwright.data.audit.audit_result import AuditResult

if TYPE_CHECKING:
    from trainwright.contract.sections.data.series import SeriesData

RowTrial = Literal[
    "equal rows", "near rows", "near texts", "equal images", "near images", "copied text"
]
"""Held-out rows, images or segments of text are excluded."""

Trial = RowTrial | Literal["groups", "time", "features"]

_TRIALS: dict[str, tuple[Trial, BindingFinding]] = {
    "same rows": ("equal rows", "exact_duplicates"),
    "near rows": ("near rows", "near_duplicates"),
    "near texts": ("near texts", "near_duplicates"),
    "same images": ("equal images", "exact_duplicates"),
    "near images": ("near images", "near_duplicates"),
    "text overlap": ("copied text", "text_overlap"),
    "same groups": ("groups", "group_overlap"),
    "future rows": ("time", "future_rows"),
    "tells the target": ("features", "leak"),
    "function of the target": ("features", "leak"),
    "later times": ("features", "leak"),
}
_PLAIN = re.compile(r"[A-Za-z_][\w.#-]*")


@final
@dataclass(frozen=True, slots=True)
class Suspect:
    """A testable finding. `write` is the contract line that resolves it, empty if the files must
    change; `reason` is the contract's reason for accepting it, if any."""

    trial: Trial
    finding: BindingFinding
    columns: tuple[str, ...]
    message: str
    write: str
    reason: str = ""

    @property
    def of_rows(self) -> bool:
        """Does it concern rows, images or text segments?"""
        return is_of_rows(self.trial)


def is_of_rows(trial: Trial) -> bool:
    """Does a trial exclude rows, images or text segments?"""
    return trial not in ("groups", "time", "features")


def suspicions_of(
    audited: Iterable[AuditResult], section: Data, *, is_classes: bool
) -> tuple[Suspect, ...]:
    """Testable findings: one for each group, time order or kind of duplicates, and one for all
    leaking columns together, since one of two copies of the target is enough.

    Not testable are file order, since a file may be sorted by its target, and very strong features,
    since no experiment shows if they are legitimate.
    """
    found: dict[tuple[str, tuple[str, ...]], Suspect] = {}
    leaks: list[AuditResult] = []
    for one in audited:
        if one.verdict == "clean" or one.test not in _TRIALS:
            continue
        trial, finding = _TRIALS[one.test]
        if trial == "features":
            leaks += [one] if one.verdict == "leak" else []
        elif one.columns or is_of_rows(trial):
            write = _line(trial, one.columns, section, is_classes=is_classes)
            message = one.message if write else f"{one.message}; {one.fix}"
            reason = accepted_reason(finding, one.columns, section.audit.accept)
            found.setdefault(
                (trial, one.columns),
                Suspect(trial, finding, one.columns, message, write, reason),
            )
    return (*_leaks(leaks, section), *found.values())


def _leaks(leaks: Sequence[AuditResult], section: Data) -> list[Suspect]:
    """The columns not accepted, and all columns if some are accepted."""
    columns = tuple(dict.fromkeys(name for one in leaks for name in one.columns))
    if not columns:
        return []
    reasons = {name: accepted_reason("leak", (name,), section.audit.accept) for name in columns}
    rest = tuple(name for name in columns if not reasons[name])
    message = "; ".join(dict.fromkeys(one.message for one in leaks))
    write = _line("features", rest, section, is_classes=False)
    found = [Suspect("features", "leak", rest, message, write)] if rest else []
    if len(rest) < len(columns):
        known = "; ".join(dict.fromkeys(reason for reason in reasons.values() if reason))
        accepted = tuple(name for name in columns if reasons[name])
        found.append(Suspect("features", "leak", accepted, message, "", known))
    return found


def accepted_reason(
    finding: BindingFinding, columns: Sequence[str], accept: Sequence[Accepted]
) -> str:
    """The contract's reason for accepting a finding, if any."""
    for one in accept:
        if one.finding == finding and set(columns) <= set(one.columns):
            return one.reason
    return ""


def acceptance(finding: BindingFinding, columns: Sequence[str]) -> str:
    """The contract line that accepts a finding."""
    named = f", columns: [{', '.join(map(_name, columns))}]" if columns else ""
    return f'data: {{audit: {{accept: [{{finding: {finding}{named}, reason: "..."}}]}}}}'


def _line(trial: Trial, columns: Sequence[str], section: Data, *, is_classes: bool) -> str:
    """The line of the contract that resolves a finding; empty if there is none."""
    line = CONTRACT_LINES.get(section.kind)
    return line(trial, columns, section, is_classes) if line else ""


def _table_line(trial: Trial, columns: Sequence[str], section: TableData, is_classes: bool) -> str:
    folds = "" if section.split.folds == "off" else f", folds: {section.split.folds}"
    match trial:
        case "groups":
            kind = "stratified_group" if is_classes else "group"
            return f"data: {{split: {{kind: {kind}, column: {_name(columns[0])}{folds}}}}}"
        case "time":
            by = f"column: {_name(columns[0])}"
            if len(columns) > 1:
                by = f"parts: [{', '.join(map(_name, columns))}]"
            return f"data: {{split: {{kind: time, {by}{folds}}}}}"
        case "features":
            names = dict.fromkeys((*section.exclude, *columns))
            return f"data: {{exclude: [{', '.join(map(_name, names))}]}}"
        case "equal rows":
            return "data: {quality: {actions: {exact_duplicates: drop}}}"
        case "near rows" | "near texts":
            return "data: {quality: {actions: {near_duplicates: drop}}}"
        case "equal images" | "near images" | "copied text":
            raise AssertionError("a table has neither images nor segments of text")
        case _:
            assert_never(trial)


def _series_line(
    _trial: Trial, columns: Sequence[str], section: SeriesData, _is_classes: bool
) -> str:
    known = (name for name in section.known if name not in columns)
    names = dict.fromkeys((*section.exclude, *columns))
    listed = (
        f"{key}: [{', '.join(map(_name, of))}]"
        for key, of in (("known", known), ("exclude", names))
    )
    return f"data: {{{', '.join(listed)}}}"


def _name(column: str) -> str:
    """A column name in YAML flow style."""
    is_plain = _PLAIN.fullmatch(column) and column.lower() not in ("null", "true", "false")
    return column if is_plain else json.dumps(column, ensure_ascii=False)


CONTRACT_LINES: Mapping[str, Callable[[Trial, Sequence[str], Any, bool], str]] = MappingProxyType(
    {"table": _table_line, "series": _series_line}
)
"""Of the kinds of data whose sections can resolve a finding."""
