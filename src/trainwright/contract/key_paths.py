"""Paths of keys in a contract, as messages name them and `--set` takes them.

A name with a point, an equals sign or a space stands in quotes: `data.columns."a.b".kind`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import get_close_matches

_PLAIN = re.compile(r"[\w/%()+-]+")
_QUOTED = r"""(?:"[^"]+"|'[^']+')"""

PIECE = rf"\s*{_QUOTED}\s*|[^.=]*"
"""The pattern of a name in a path."""


def as_key(name: str | int) -> str:
    """A name as it stands in a path."""
    text = str(name)
    if _PLAIN.fullmatch(text):
        return text
    return f"'{text}'" if '"' in text else f'"{text}"'


def join(path: str, *names: str | int) -> str:
    """The path of a key below `path`."""
    return ".".join([*([path] if path else []), *map(as_key, names)])


def names_of(path: str) -> tuple[str, ...]:
    """The names in a path, without the quotes that hold one together."""
    found = [piece.strip() for piece in re.findall(rf"(?:^|(?<=\.))({PIECE})(?=\.|$)", path)]
    return tuple(piece[1:-1] if re.fullmatch(_QUOTED, piece) else piece for piece in found)


def nearest_word(word: str, known: Sequence[str]) -> str:
    """The known word that `word` may be a slip of; empty if none comes close."""
    lowered = {name.lower(): name for name in known}
    close = get_close_matches(word.lower(), list(lowered), n=1, cutoff=0.6)
    # A word cut short, such as `cosine` for `cosine_with_warmup`, is too unlike to be close.
    close += [name for name in lowered if len(word) > 2 and name.startswith(word.lower())]
    return lowered[close[0]] if close else ""
