"""Request for a training, with what the caller adds to the contract."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, final

from trainwright.contract.reading.read_contract import ContractText
from trainwright.data.sources.frames import Frame
from trainwright.run.request.extension_request import NO_EXTENSION, ExtensionRequest
from trainwright.tracking.events import Event
from trainwright.tracking.observers import Observer

if TYPE_CHECKING:
    from trainwright.engine.stopping.stop_rules import StopRule


class FolderObserver(Protocol):
    """Observer of the run that also needs its folder."""

    def opened(self, folder: Path) -> None:
        """The run's folder exists and is owned."""
        ...

    def observe(self, event: Event) -> None:
        """Take notice of one event."""
        ...


@final
@dataclass(frozen=True, slots=True)
class Additions:
    """Stop rules and observers of the caller, next to those of the contract. In every training of
    the run the rules are asked between two steps; between two trees of boosting."""

    stop_rules: Sequence[StopRule] = ()
    observers: Sequence[Observer] = ()


@final
@dataclass(frozen=True, slots=True)
class Request:
    """Request for a training, with its time on the monotonic clock: a budget counts from then. An
    empty `name` takes the next free number; with `resume` and no name, the newest run of the
    contract's name is resumed. `frames` are those that the contract calls `frame://NAME`. `extend`
    gives a finished run a new ending; a new run begins at `start`, `RUN@STEP`; `added` are
    the caller's stop rules and observers."""

    contract: Path | ContractText
    overrides: Sequence[str] = ()
    runs: Path = Path("runs")
    name: str = ""
    resume: bool = False
    command: Sequence[str] = tuple(sys.argv)
    watchers: Sequence[FolderObserver] = ()
    start: str = ""
    frames: Mapping[str, Frame] = field(default_factory=dict)
    extend: ExtensionRequest = NO_EXTENSION
    added: Additions = field(default_factory=Additions)
    asked_at: float = field(default_factory=time.monotonic)
