"""A contract holds no secret: it is copied into each run folder, where others read it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from trainwright.contract.key_paths import join
from trainwright.contract.reading.yaml_reader import ParsedYaml, Plain
from trainwright.core.errors import NOWHERE, ContractMistake, Place, Problem
from trainwright.core.secret_urls import HIDDEN, KNOWN_TOKEN, hide_in_urls, holds_secret

_SECRET_IN_QUERY = re.compile(r"'[^']*\bpassword\s*=\s*[^\s'][^']*'", re.IGNORECASE)
_FIX = (
    "give it in the environment, as the library of this place reads it: PGPASSWORD or ~/.pgpass "
    "for PostgreSQL, AWS_SECRET_ACCESS_KEY for S3, HF_TOKEN for hf://; what HTTP gives only for a "
    "key is downloaded first, and the file named"
)


def secrets_of(written: ParsedYaml, text: str, file: str) -> list[Problem]:
    """One problem for each value that holds a secret, or else for each line of the text, as a
    comment may. None of them repeats it."""
    found = [
        _problem(value, path=path)
        for path, value in _strings(written.value, "")
        if holds_secret(value) or (path == "data.sql.query" and _SECRET_IN_QUERY.search(value))
    ]
    if found:
        return found
    return [
        _problem("", place=Place(file, number))
        for number, line in enumerate(text.splitlines(), 1)
        if holds_secret(line)
    ]


def refuse_secret(text: str, path: str) -> None:
    """Refuse a URL with a secret before it is written into a contract.

    Raises:
        ContractMistake: it holds one; the message does not repeat it.
    """
    if holds_secret(text):
        raise ContractMistake(_problem(text, path=path))


def _strings(value: Plain, path: str) -> Iterator[tuple[str, str]]:
    """The texts of a contract, keys among them, by the path to blame."""
    match value:
        case str():
            yield path, value
        case list():
            for at, item in enumerate(value):
                yield from _strings(item, join(path, at))
        case dict():
            for key, item in value.items():
                yield path, key
                yield from _strings(item, join(path, key))
        case _:
            return


def _problem(text: str, path: str = "", place: Place = NOWHERE) -> Problem:
    # Nothing of the text but its scheme: what else of it is secret cannot be known.
    scheme, found, _ = text.partition("://")
    return Problem(
        "a URL here holds a password or a key, which a contract must not",
        path=KNOWN_TOKEN.sub(HIDDEN, hide_in_urls(path)),
        found=f"{scheme}://{HIDDEN}" if found and scheme.isalnum() else HIDDEN,
        expected="a URL that anybody may read",
        fix=_FIX,
        place=place,
    )
