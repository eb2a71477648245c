"""Stage times, summary and console output of a run."""

from __future__ import annotations

import os
import textwrap
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol, TextIO, final

from trainwright.contract.document import Contract
from trainwright.contract.key_paths import as_key
from trainwright.contract.sections.data.data import Data
from trainwright.contract.sections.section import settled
from trainwright.contract.sections.training.objective import Teacher, TeacherStates
from trainwright.core.formatting import many, show_bytes, show_count, show_safely, show_seconds
from trainwright.core.redaction import redact_named
from trainwright.data.base.messages import some
from trainwright.data.columns.resolve_doubts import said
from trainwright.data.read_table import DataFacts, Raw
from trainwright.data.types import Prepared
from trainwright.model.families import library_family
from trainwright.planner.estimate import Estimate
from trainwright.planner.plan import Plan
from trainwright.planner.resolve.training_choices import Choice
from trainwright.tracking.clock import show_time
from trainwright.tracking.console import (
    LABEL_WIDTH,
    ConsoleProgress,
    CountProgress,
    build_console,
    build_count,
)

_WIDTH_UNKNOWN = 80
_LEAST_SHOWN = 0.05
"""Seconds that `show_seconds` does not round to 0."""

_MOST_NAMES = 4


class Screen(Protocol):
    """Where a run reports progress. Results go elsewhere."""

    def say(self, line: str) -> None:
        """Write a permanent line."""
        ...

    def progress(self, total_steps: int) -> ConsoleProgress:
        """Observer that shows the progress of the training; of 0 steps the length is unknown."""
        ...

    def count(self, total: int) -> CountProgress:
        """Progress in at most `total` parts, for models outside the loop."""
        ...


@final
class StreamScreen:
    """Lines and a live bar on a stream, which is stderr for commands."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def say(self, line: str) -> None:
        """Write a line, wrapped on a terminal."""
        line = show_safely(line)
        if self._stream.isatty():
            width = os.get_terminal_size(self._stream.fileno()).columns or _WIDTH_UNKNOWN
            line = textwrap.fill(
                line,
                width,
                subsequent_indent=" " * LABEL_WIDTH,
                break_long_words=False,
                break_on_hyphens=False,
            )
        self._stream.write(line + "\n")
        self._stream.flush()

    def progress(self, total_steps: int) -> ConsoleProgress:
        """Live on a terminal, plain lines elsewhere."""
        return build_console(self._stream, total_steps)

    def count(self, total: int) -> CountProgress:
        """Live on a terminal, plain lines elsewhere."""
        return build_count(self._stream, total)


@final
class LoggedScreen:
    """Shows what is said, and keeps it in `log.txt` once the run has a folder. A log that cannot be
    written is said once."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._path: Path | None = None
        self._lines: list[str] = []

    def log_to(self, path: Path) -> None:
        """Append what was said until now and what will be, from the next line on."""
        self._path = path

    def say(self, line: str) -> None:
        """Write a line, and keep it."""
        self._screen.say(line)
        self._keep(line)

    def progress(self, total_steps: int) -> ConsoleProgress:
        """That of the screen; its permanent lines are kept."""
        progress = self._screen.progress(total_steps)
        progress.log_to(self._keep)
        return progress

    def count(self, total: int) -> CountProgress:
        """That of the screen."""
        return self._screen.count(total)

    def _keep(self, line: str) -> None:
        self._lines.append(f"{show_time(datetime.now(UTC))} {line}\n")
        if self._path is None:
            return
        text, self._lines = redact_named(show_safely("".join(self._lines))), []
        try:
            with self._path.open("a") as stream:
                stream.write(text)
        except OSError as error:
            path, self._path = self._path, None
            self._screen.say(labelled("warning", f"{path} is not written: {error.strerror}"))


@final
class StageTimes:
    """Seconds of each named stage, in order of first entry; `began` is the start on the monotonic
    clock, by default now."""

    def __init__(self, began: float | None = None) -> None:
        self._began = time.monotonic() if began is None else began
        self.seconds: dict[str, float] = {}

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        """Add the time of the block to `name`."""
        started = time.monotonic()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.monotonic() - started

    @property
    def elapsed(self) -> float:
        """Seconds since the start, including those outside any stage."""
        return time.monotonic() - self._began

    def line(self) -> str:
        """`read 0.3s · prepare 0.5s · train 2.1s · other 0.2s · total 3.1s`."""
        total = self.elapsed
        shown = dict(self.seconds)
        if (other := total - sum(shown.values())) >= _LEAST_SHOWN:
            shown["other"] = other
        shown["total"] = total
        return " · ".join(f"{name} {show_seconds(time)}" for name, time in shown.items())


def labelled(label: str, text: str) -> str:
    """Aligned line of the screen."""
    return f"{label:<{LABEL_WIDTH}}{text}"


def describe_data(raw: Raw, prepared: Prepared) -> list[str]:
    """Rows, columns, target, split and exclusions."""
    facts = raw.facts
    files = some([file.path for file in facts.files], _MOST_NAMES)
    lines = [
        labelled("data", f"{files} · {prepared.features.describe(facts.rows)}"),
        labelled("target", prepared.target.describe(prepared.split.class_shares.get("train", {}))),
    ]
    split = prepared.split
    rows = " / ".join(f"{split.rows[part]:,}" for part in ("train", "validation", "test"))
    lines.append(
        labelled("split", f"{split.kind} · train / validation / test {rows} · {split.reason}")
    )
    # Over folds the test rows are those of the training and the validation again.
    apart = () if split.folds else (prepared.test,)
    if cut := prepared.features.describe_cuts([prepared.train, prepared.validation, *apart]):
        lines.append(labelled("truncated", cut))
    lines += [labelled(label, text) for label, text in raw.remarks]
    lines += [labelled("warning", warning) for warning in doubt_warnings(facts)]
    lines += [labelled("done", one.message) for one in prepared.done]
    return lines


def doubt_warnings(facts: DataFacts) -> list[str]:
    """Decisions on ambiguous columns, one line each, with the setting to write."""
    if not facts.doubts:
        return []
    from trainwright.planner.init.yaml_lines import flow

    return [
        f"{doubt.column}: {doubt.reason} · to decide it, write "
        + (doubt.write or f"data.columns.{as_key(doubt.column)}: {flow(said(doubt.settings))}")
        for doubt in facts.doubts
    ]


def describe_plan(decided: Plan) -> str:
    """Model, length and size in a line."""
    contract, estimate = decided.contract, decided.estimate
    model = contract.model
    parts: list[str] = [model.kind]
    if estimate.parameters != "unknown":
        parts.append(f"{show_count(estimate.parameters)} parameters")
    if model.is_selection:
        parts.append(_candidates(decided))
    elif model.is_loop_trained:
        parts.append(_length(contract, estimate))
    else:
        parts.append(library_family(model).describe(model))
    if contract.training.refit:
        parts.append("then again on training and validation rows")
    if isinstance(teacher := contract.training.teacher, Teacher):
        parts.append(f"learns from {teacher.bundle} ({teacher.weight:.0%} of the loss)")
        if isinstance(teacher.hidden, TeacherStates):
            parts.append("and its hidden states")
    parts.append(_held(contract.data, estimate.memory_bytes))
    return labelled("plan", " · ".join(parts))


def _candidates(decided: Plan) -> str:
    """Candidates, and those that cannot be trained."""
    from trainwright.contract.sections.model.selection import ModelSelection

    names = ModelSelection.of(decided.contract.model).chosen_names
    omitted = [name for name, one in decided.candidates.items() if isinstance(one, str)]
    said = many(len(names) - len(omitted), "candidate")
    return f"{said}, not trained: {', '.join(omitted)}" if omitted else said


def _length(contract: Contract, estimate: Estimate) -> str:
    """Epochs, steps and number format of a network's run."""
    training = contract.training
    sample = ("query", "queries") if contract.task == "ranking" else ("row",)
    epochs, form = settled(training.num_epochs), training.mixed_precision
    long = (
        f"at most {many(epochs, 'epoch')} of {many(estimate.steps_per_epoch, 'step')}, "
        f"{_growing(estimate, epochs)}"
    )
    if training.num_steps != "off":
        long = f"{many(training.num_steps, 'step')}, {estimate.steps_per_epoch:,} an epoch, "
    if training.num_tokens != "off":
        long = f"{many(training.num_tokens, 'token')}, "
    return (
        f"{long}"
        f"{many(settled(training.effective_batch_size), *sample)} a step, "
        f"{'number format to be measured' if form == 'auto' else form}"
    )


def _held(data: Data, memory_bytes: int) -> str:
    in_files = data.is_in_files
    return "rows in files" if in_files else f"{show_bytes(memory_bytes)} of encoded data"


def _growing(estimate: Estimate, epochs: int) -> str:
    """Total steps, if epochs differ."""
    if estimate.steps == epochs * estimate.steps_per_epoch:
        return ""
    return f"{estimate.steps:,} in all, "


def describe_choice(choice: Choice) -> str:
    """Measured choice in a line."""
    name = choice.path.rpartition(".")[2].replace("_", " ")
    return labelled("measured", f"{name} {choice.value}: {choice.reason}")
