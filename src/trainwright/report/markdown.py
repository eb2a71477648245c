"""Markdown from untrusted text: what a page shows is what was written, and nothing else happens."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from trainwright.core.redaction import redact_named
from trainwright.report.format import clean

_PUNCTUATION = re.compile(r"([\\`*_\[\]|~])")
# What begins a heading, a quotation, a list or a number of one.
_FIRST = re.compile(r"^(\s*\d*)([#>+.)-])")
_ENTITIES = {"&": "&amp;", "<": "&lt;", "@": "&#64;", "$": "&#36;"}
# Bare links are links in the Markdown of GitHub and Hugging Face.
_LINKS = re.compile(r"(?i)(?<=[a-z0-9]):(?=//)|(?<=\bwww)\.")
_LINK_ENTITIES = {":": "&#58;", ".": "&#46;"}
_FOLDERS = re.compile(
    r"(?:(?<=^)|(?<=[\s\"'=(\[{,;`]))(?:file://)?(?:~[\w.-]*[\\/]|[A-Za-z]:[\\/]|/(?=[\w.+ @-]+/))"
    r"(?:[\w.+ @-]+[/\\])*(?=[\w.+@-])"
)
_BACKTICKS = re.compile(r"`+")


def without_folders(text: str) -> str:
    """Text in which an absolute path of this machine is the name of its file."""
    return _FOLDERS.sub("", text)


def plain(text: str) -> str:
    """One line of text as it was written, without secrets and folders of this machine."""
    safe = clean(redact_named(without_folders(text)))
    safe = "".join(_ENTITIES.get(letter, letter) for letter in safe)
    safe = _FIRST.sub(r"\1\\\2", _PUNCTUATION.sub(r"\\\1", safe))
    return _LINKS.sub(lambda found: _LINK_ENTITIES[found[0]], safe)


def code(text: str) -> str:
    """One line as code, for a table too: a name of the data, a hash or a value."""
    safe = clean(redact_named(without_folders(text)))
    if not safe.strip():
        return "(empty)"
    fence = "`" * (1 + max((len(run) for run in _BACKTICKS.findall(safe)), default=0))
    room = " " if safe.startswith("`") or safe.endswith("`") else ""
    return f"{fence}{room}{safe}{room}{fence}".replace("|", "\\|")


def block(text: str, language: str) -> str:
    """Lines as code; the caller has taken secrets out."""
    longest = max((len(run) for run in _BACKTICKS.findall(text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"


def table(names: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of cells that are Markdown already; empty without rows."""
    lines = [f"| {' | '.join(row)} |" for row in rows]
    if not lines:
        return ""
    return "\n".join([f"| {' | '.join(names)} |", f"|{' --- |' * len(names)}", *lines])


def bullets(lines: Iterable[str]) -> str:
    """A list of lines that are Markdown already."""
    return "\n".join(f"- {line}" for line in lines)
