"""Prepared rows of a contract in a folder, which other processes open in place of preparing them
again: the trials of a search."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import final

from trainwright.core.files import Json, hash_value
from trainwright.data.mapped_values import are_written, open_values, write_values
from trainwright.run.prepare.prepare_run import Ready, preparation_of, without_undivided
from trainwright.run.prepared_data import PreparedData
from trainwright.run.request import Request

_Choices = Mapping[str, tuple[Json, str]]


@final
@dataclass(frozen=True, slots=True)
class KnownChoices:
    """What `auto` means by the rows, for models of trees and for others, as it was found."""

    of_trees: _Choices
    of_others: _Choices

    def __call__(self, of_trees: bool) -> _Choices:
        """That of one of both."""
        return self.of_trees if of_trees else self.of_others


def write_rows(ready: Ready, folder: Path) -> Path:
    """Write prepared rows below a folder, unless they are there; where they lie, by everything that
    decided how they were prepared.

    Raises:
        StorageFailed: the disk.
    """
    files = [file.sha256 for file in ready.raw.facts.files]
    key = {"version": ready.prepared.version, "files": files}
    place = folder / hash_value({**key, **dict(preparation_of(ready.plan.contract))})[:16]
    if not are_written(place):
        ready = without_undivided(ready)
        choices: Callable[[bool], _Choices] = ready.raw.facts.choices
        facts = replace(ready.raw.facts, choices=KnownChoices(choices(True), choices(False)))
        raw = replace(ready.raw, facts=facts)  # type: ignore[type-var]
        write_values(replace(ready, raw=raw), place)
    return place


def open_rows(request: Request, folder: Path) -> PreparedData:
    """Prepared rows that were written for a request, mapped, with the plan that they were prepared
    by."""
    return PreparedData(open_values(folder), request)
