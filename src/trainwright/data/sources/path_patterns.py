"""Files whose paths match a pattern, found in a bounded walk."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import translate
from pathlib import Path, PurePath

from trainwright.core.limits import MOST_PATTERN_ENTRIES

_ANY_FOLDERS = "**"
_MARKS = frozenset("*?[")


class TooManyEntriesError(Exception):
    """A pattern leads through more files and folders than are looked at."""


def is_pattern(written: str) -> bool:
    """Whether a path has a mark that stands for other letters."""
    return any(mark in written for mark in _MARKS)


def paths_matching(pattern: str, folder: Path) -> list[str]:
    """The files that match, as the pattern would call them, sorted; `**` stands for any folders,
    but for no link to one, and a mark for no dot at the beginning of a name.

    Raises:
        TooManyEntriesError: more than `MOST_PATTERN_ENTRIES` names were compared.
    """
    pieces = PurePath(pattern).parts
    fixed = next((at for at, piece in enumerate(pieces) if is_pattern(piece)), len(pieces))
    start = PurePath(*pieces[:fixed])
    walk = _Walk(folder)
    return sorted({path.as_posix() for path in walk.below(start, pieces[fixed:])})


@dataclass(slots=True)
class _Walk:
    root: Path
    seen: int = 0

    def below(self, at: PurePath, pieces: Sequence[str]) -> Iterator[PurePath]:
        """Files below `at` that match the pieces."""
        if not pieces:
            if (self.root / at).is_file():
                yield at
            return
        first, rest = pieces[0], pieces[1:]
        if first == _ANY_FOLDERS:
            yield from self.below(at, rest or ("*",))
            for entry in self._entries(at):
                if entry.is_dir(follow_symlinks=False) and not entry.name.startswith("."):
                    yield from self.below(at / entry.name, pieces)
        elif is_pattern(first):
            matches = re.compile(translate(first)).match
            for entry in self._entries(at):
                if matches(entry.name) and (entry.name[0] != "." or first[0] == "."):
                    yield from self.below(at / entry.name, rest)
        else:
            yield from self.below(at / first, rest)

    def _entries(self, at: PurePath) -> Iterator[os.DirEntry[str]]:
        """What lies in a folder; nothing in what is none or may not be read."""
        try:
            with os.scandir(self.root / at) as entries:
                for entry in entries:
                    self.seen += 1
                    if self.seen > MOST_PATTERN_ENTRIES:
                        raise TooManyEntriesError
                    yield entry
        except OSError:
            return
