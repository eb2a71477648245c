"""Read a contract: text, overrides, shape, rules; every problem at once, each with its place."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Integral, Real
from pathlib import Path, PurePath
from typing import Self, TypeGuard

from pydantic import ValidationError
from ruamel.yaml import YAML

from trainwright.contract.document import Contract
from trainwright.contract.key_paths import join
from trainwright.contract.reading.overrides import set_values
from trainwright.contract.reading.yaml_reader import MAX_BYTES, ParsedYaml, Plain, read_yaml
from trainwright.contract.rules.all_rules import problems_of_rules
from trainwright.core.errors import NOWHERE, ContractMistake, Place, Problem
from trainwright.core.redaction import HIDDEN, KNOWN_TOKEN, hide_in_urls, holds_secret

_SECRET_IN_QUERY = re.compile(r"'[^']*\bpassword\s*=\s*[^\s'][^']*'", re.IGNORECASE)
_FIX = (
    "give it in the environment, as the library of this place reads it: PGPASSWORD or ~/.pgpass "
    "for PostgreSQL, AWS_SECRET_ACCESS_KEY for S3, HF_TOKEN for hf://; what HTTP gives only for a "
    "key is downloaded first, and the file named"
)

_LONGEST_NAME = 56
"""Leaves room in a run's name for `-` and its number."""


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


@dataclass(frozen=True, slots=True)
class ContractSource:
    """The text that a contract was read from, and where each path stands in it.

    The keys of `places` are contract paths such as `slices.0.floor`; `""` is the whole file.
    `folder` is where the contract's relative paths start.
    """

    file: str
    text: str
    folder: Path
    places: Mapping[str, Place]

    def place_of(self, path: str) -> Place:
        """Where `path` stands, or what is around it if it is not written."""
        while path and path not in self.places:
            path = path.rpartition(".")[0]
        return self.places.get(path, Place(self.file))


@dataclass(frozen=True, slots=True)
class Document:
    """A contract with what is known of its writing.

    `written` holds the paths that the file or an override spells out; `notes` says what overrides
    took out of the contract.
    """

    contract: Contract
    source: ContractSource
    written: frozenset[str]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ContractText:
    """A contract that stands in no file of its own. Its relative paths start at `folder`."""

    text: str
    folder: Path

    def __str__(self) -> str:
        return "contract"

    @classmethod
    def of(cls, values: Sections, folder: Path) -> Self:
        """The YAML of a mapping of sections, of a contract object, or of a contract that was read,
        which keeps its own folder.

        Raises:
            ContractMistake: a value is not one that YAML has.
        """
        if isinstance(values, Document):
            folder, values = values.source.folder, values.contract
        if isinstance(values, Contract):
            values = values.model_dump(mode="json", exclude_unset=True)
        try:
            plain = json.loads(json.dumps(values, default=_plain, allow_nan=False))
        except (TypeError, ValueError, RecursionError) as error:
            problem = Problem(
                "the contract holds a value that YAML cannot",
                found=str(error),
                expected="numbers, texts, lists and mappings",
                fix="give files by their path, and frames by frames={NAME: frame}",
            )
            raise ContractMistake(problem) from None
        stream = io.StringIO()
        yaml = YAML(typ="safe", pure=True)
        yaml.default_flow_style, yaml.width = False, 4096
        yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment]
        yaml.dump(plain, stream)
        return cls(stream.getvalue(), folder)


Sections = Mapping[str, object] | Contract | Document
"""A contract that is given from Python."""


def is_contract(value: object) -> TypeGuard[str | Path | Sections]:
    """Is this a contract's file, sections or object?"""
    return isinstance(value, str | Path | Mapping | Contract | Document)


def file_or_text(contract: str | Path | Sections) -> Path | ContractText:
    """A contract's file, or the text of its sections, whose relative paths start at the working
    directory.

    Raises:
        ContractMistake: as `ContractText.of`.
    """
    if isinstance(contract, str | Path):
        return Path(contract)
    return ContractText.of(contract, Path.cwd())


def _plain(value: object) -> object:
    if isinstance(value, PurePath):
        return str(value)
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real):
        return float(value)
    raise TypeError(f"{type(value).__name__}: {value!r}"[:160])


def read_contract(path: Path | ContractText, overrides: Sequence[str] = ()) -> Document:
    """Read the contract at `path` with `a.b.c=value` overrides in place.

    Raises:
        ContractMistake: every problem of the text, or else every problem of its shape, or else
            every rule that it breaks.
    """
    data = path.text.encode() if isinstance(path, ContractText) else _read(path)
    written = read_yaml(data, str(path))
    if written.value is None:
        raise ContractMistake(_empty(str(path)))
    if not isinstance(written.value, dict):
        raise ContractMistake(_no_mapping(str(path)))
    written, notes = set_values(written, overrides)
    source = ContractSource(str(path), data.decode("utf-8-sig"), _folder_of(path), written.places)
    if problems := secrets_of(written, source.text, source.file):
        raise ContractMistake(placed(problems, source))
    contract = _shaped(written, source)
    document = Document(
        contract=_named(contract, path),
        source=source,
        written=frozenset(written.places) - {""},
        notes=notes,
    )
    if problems := problems_of_rules(document.contract, document.written):
        raise ContractMistake(placed(problems, source))
    return document


def placed(problems: Iterable[Problem], source: ContractSource) -> list[Problem]:
    """The problems with their places, in the order of the file."""
    found = [
        replace(problem, place=source.place_of(problem.path))
        if problem.place == NOWHERE
        else problem
        for problem in problems
    ]
    return sorted(found, key=lambda problem: problem.place.line)


def _shaped(written: ParsedYaml, source: ContractSource) -> Contract:
    text = json.dumps(written.value, allow_nan=False)
    try:
        # JSON mode: lists become tuples, and everything else stays strict.
        return Contract.model_validate_json(text)
    except ValidationError as error:
        # Imported here: most contracts have no mistake.
        from trainwright.contract.reading.validation_errors import problems_of_shape

        problems = problems_of_shape(Contract, written.value, error)
        raise ContractMistake(placed(problems, source)) from None


def _folder_of(path: Path | ContractText) -> Path:
    return path.folder if isinstance(path, ContractText) else path.absolute().parent


def _named(contract: Contract, path: Path | ContractText) -> Contract:
    if contract.name != "auto":
        return contract
    if isinstance(path, ContractText):
        return contract.model_copy(update={"name": "run"})
    whole = path.absolute()
    name = whole.parent.name if whole.stem == "contract" else whole.stem
    safe = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("._-")[:_LONGEST_NAME]
    return contract.model_copy(update={"name": safe or "run"})


def _read(path: Path) -> bytes:
    """The bytes of the file; of a larger one than is allowed, one byte too many."""
    place = Place(str(path))
    if path.is_dir():
        fix = f"name the file in it, for example {path / 'contract.yaml'}"
        raise ContractMistake(Problem("this is a folder, not a contract", fix=fix, place=place))
    try:
        with path.open("rb") as stream:
            return stream.read(MAX_BYTES + 1)
    except FileNotFoundError:
        problem = Problem(
            "there is no such contract",
            fix="check the path, or write one with: trainwright init DATA --target COLUMN",
            place=place,
        )
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        problem = Problem(
            "the contract cannot be read",
            found=str(reason),
            fix="check the path and the file's permissions",
            place=place,
        )
    raise ContractMistake(problem)


def _empty(path: str) -> Problem:
    return Problem(
        "the contract is empty",
        expected="at least the sections data and model",
        fix="write one with: trainwright init DATA --target COLUMN",
        place=Place(path),
    )


def _no_mapping(path: str) -> Problem:
    return Problem(
        "the contract is not a mapping of sections",
        expected="lines such as 'model:' with keys under them",
        fix="write one with: trainwright init DATA --target COLUMN",
        place=Place(path, 1),
    )
