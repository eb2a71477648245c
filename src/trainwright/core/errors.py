"""Every error that Trainwright raises on purpose, and the exit code each one ends a command with.

    TrainwrightError
    ├── Mistake                  2   the user's: contract, data or arguments; holds Problems
    │   ├── ContractMistake          the contract does not say what it must
    │   ├── DataMistake              the data cannot be used for training
    │   ├── NotAvailable             a known key whose work this version does not do yet
    │   └── MissingExtra             a part of the installation is absent
    ├── DataChanged             11   the data is not the data of the run that is resumed
    ├── NoValidCheckpoint       12   the run has a history, but no checkpoint of it verifies
    ├── StorageFailed           13   a write did not reach the disk
    │   └── DamagedFile              a file of a run is not what was written
    ├── NonFinite               14   halted: a number is not finite, a loss leapt, memory ran out
    ├── RunLocked               15   another process owns the run folder
    ├── PeerLost                16   a process that the run needs died too often
    └── Interrupted             75   stopped before its end; can be resumed

0 is done with the verdict met; 3 is done with the verdict missed or undecided, 4 is data checked
and errors found in it (no errors of ours).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from trainwright.core.formatting import show_safely
from trainwright.core.redaction import hide_in_urls, redact, redact_named

EXIT_DONE = 0
EXIT_VERDICT_NOT_MET = 3
EXIT_DATA_FAULTY = 4
ProblemKind = Literal[
    "",
    "no_feature",
    "broken_quotes",
    "nested_values",
    "encoding",
    "control_characters",
    "repeated_names",
    "ragged_rows",
    "infinite",
    "unreadable_target",
]


@dataclass(frozen=True, slots=True)
class Place:
    """Position in a file. Lines and columns count from 1; 0 means the whole file."""

    file: str
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.line else self.file


NOWHERE = Place("")


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem, with what is needed to fix it without reading the source.

    `path` is the contract path (`training.batch_size`) or the column; `found` and `expected` may be
    empty if they would only repeat `message`. `kind` identifies a problem that callers can handle;
    nothing decides by the wording.
    """

    message: str
    path: str = ""
    found: str = ""
    expected: str = ""
    fix: str = ""
    place: Place = NOWHERE
    kind: ProblemKind = ""

    def __str__(self) -> str:
        head = ": ".join(part for part in (str(self.place), self.path, self.message) if part)
        details = [
            f"    {label}: {text}"
            for label, text in (
                ("found", self.found),
                ("expected", self.expected),
                ("fix", self.fix),
            )
            if text
        ]
        return show_safely(hide_in_urls("\n".join([head, *details])))

    def without_secrets(self) -> Problem:
        """The problem with apparent secrets in its texts redacted.

        A long random word is redacted only if it was given by `--set`: elsewhere it may be a hash,
        or a column name.
        """
        hide = redact if self.place.file.startswith("--set ") else redact_named
        return replace(
            self,
            message=hide(self.message),
            path=hide(self.path),
            found=hide(self.found),
            expected=hide(self.expected),
            fix=hide(self.fix),
        )


class TrainwrightError(Exception):
    """Root of all errors raised on purpose."""

    exit_code: ClassVar[int] = 1


class Mistake(TrainwrightError):
    """User error: shown without a traceback, with all problems at once."""

    exit_code = 2

    def __init__(self, problems: Problem | Iterable[Problem]) -> None:
        given = (problems,) if isinstance(problems, Problem) else problems
        listed = tuple(problem.without_secrets() for problem in given)
        assert listed, "a mistake names at least one problem"
        self.problems: Sequence[Problem] = listed
        super().__init__("\n".join(str(problem) for problem in listed))

    def is_about(self, kind: ProblemKind) -> bool:
        """Is one of the problems of this kind?"""
        return any(problem.kind == kind for problem in self.problems)


class ContractMistake(Mistake):
    """The contract is invalid."""


class DataMistake(Mistake):
    """The data cannot be used for training."""


class NotAvailable(Mistake):
    """A known key of the contract asks for something that this version does not implement yet."""


class MissingExtra(Mistake):
    """The installation lacks an optional dependency; the fix is the command that installs it."""


class DataChanged(TrainwrightError):
    """The data on disk differs from the data that the run was started on."""

    exit_code = 11


class NoValidCheckpoint(TrainwrightError):
    """The run has a history, but none of its checkpoints verifies."""

    exit_code = 12


class StorageFailed(TrainwrightError):
    """A write did not reach the disk."""

    exit_code = 13


class DamagedFile(StorageFailed):
    """A file of a run cannot be what was written, whatever its hash says."""


class NonFinite(TrainwrightError):
    """The guard halted the run: a non-finite loss or gradient, a loss spike, or insufficient
    memory, where the contract says to stop."""

    exit_code = 14


class RunLocked(TrainwrightError):
    """Another process owns the run folder."""

    exit_code = 15


class PeerLost(TrainwrightError):
    """A process that the run needs, such as a data worker, died or hung too often."""

    exit_code = 16


class Interrupted(TrainwrightError):
    """The run was stopped before its end and can be resumed."""

    exit_code = 75
