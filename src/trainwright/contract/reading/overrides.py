"""`--set a.b.c=value`: single values of a contract, written on the command line.

A name that holds a point or an equals sign stands in quotes: `columns."a.b".kind=text`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from trainwright.contract.key_paths import PIECE, join, names_of
from trainwright.contract.reading.yaml_reader import ParsedYaml, Plain, read_yaml, yaml_value_text
from trainwright.contract.sections.model import kinds_with
from trainwright.core.errors import ContractMistake, Place, Problem
from trainwright.core.redaction import HIDDEN, redact

_OVERRIDE = re.compile(rf"((?:{PIECE})(?:\.(?:{PIECE}))*)=(.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Override:
    """One override: where it goes, and what it writes there."""

    parts: tuple[str, ...]
    written: ParsedYaml
    place: Place

    @property
    def path(self) -> str:
        """Contract path."""
        return join("", *self.parts)


def read_settings(overrides: Sequence[str]) -> tuple[Override, ...]:
    """What overrides write, and where.

    Raises:
        ContractMistake: every override that cannot be read.
    """
    problems: list[Problem] = []
    settings = tuple(_readable(overrides, problems))
    if problems:
        raise ContractMistake(problems)
    return settings


def set_values(written: ParsedYaml, overrides: Sequence[str]) -> tuple[ParsedYaml, tuple[str, ...]]:
    """`written` with the overrides in place, and notes on what they took out.

    Raises:
        ContractMistake: every override that cannot be read or has no place to go.
    """
    problems: list[Problem] = []
    settings = tuple(_readable(overrides, problems))
    chosen = {setting.path for setting in settings}
    notes: list[str] = []
    for setting in settings:
        if setting.path == "model.kind" and isinstance(setting.written.value, str):
            written, dropped = _drop_old_model(written, setting.written.value, chosen)
            notes.extend(dropped)
        try:
            written = _set(written, setting)
        except ContractMistake as mistake:
            problems.extend(mistake.problems)
    if problems:
        raise ContractMistake(problems)
    return written, tuple(notes)


def _readable(overrides: Sequence[str], problems: list[Problem]) -> Iterator[Override]:
    for text in overrides:
        override = _OVERRIDE.fullmatch(text)
        place = Place(f"--set {_shown(text, override)}")
        parts = names_of(override[1]) if override else ()
        if not override or not all(parts):
            problems.append(
                Problem(
                    "an override is a path, '=' and a value",
                    found=redact(text),
                    fix="write for example --set training.batch_size=64",
                    place=place,
                )
            )
            continue
        try:
            yield Override(parts, read_yaml(_value(override[2]).encode(), place.file), place)
        except ContractMistake as mistake:
            problems.extend(mistake.problems)


def _shown(text: str, override: re.Match[str] | None) -> str:
    """The override without its value if a secret is in it: a password may hold spaces."""
    if override and redact(text) != text:
        return f"{redact(override[1])}={HIDDEN}"
    return redact(text)


def _value(text: str) -> str:
    """The YAML of a value. A format of dates begins with `%`, as no plain text of YAML may, and is
    text all the same."""
    return json.dumps(text) if text.startswith("%") else text


def _set(written: ParsedYaml, setting: Override) -> ParsedYaml:
    value = _placed(written.value, setting, 0)
    path = setting.path
    places = {
        other: place
        for other, place in written.places.items()
        if other != path and not other.startswith(f"{path}.")
    }
    for count in range(1, len(setting.parts)):
        places.setdefault(join("", *setting.parts[:count]), setting.place)
    for inner in setting.written.places:
        places[f"{path}.{inner}" if inner else path] = setting.place
    return ParsedYaml(value, places)


def _placed(around: Plain, setting: Override, depth: int) -> Plain:
    """A copy of `around` in which the setting's value stands at the rest of its path."""
    if depth == len(setting.parts):
        return setting.written.value
    part = setting.parts[depth]
    if isinstance(around, list):
        at = int(part) if part.isascii() and part.isdecimal() and len(part) < 6 else -1
        if not 0 <= at <= len(around):
            raise ContractMistake(_no_item(setting, depth, len(around)))
        item = around[at] if at < len(around) else None
        return [*around[:at], _placed(item, setting, depth + 1), *around[at + 1 :]]
    # A word such as `off` or `auto` gives way to the mapping that the override asks for.
    keys = around if isinstance(around, dict) else {}
    return {**keys, part: _placed(keys.get(part), setting, depth + 1)}


def _no_item(setting: Override, depth: int, length: int) -> Problem:
    listed = join("", *setting.parts[:depth])
    return Problem(
        f"{listed} is a list and has no item {setting.parts[depth]!r}",
        path=setting.path,
        expected=f"a number from 0 to {length}, where {length} adds an item",
        fix=f"write for example --set {listed}.0=...",
        place=setting.place,
    )


def _drop_old_model(
    written: ParsedYaml, kind: str, chosen: set[str]
) -> tuple[ParsedYaml, tuple[str, ...]]:
    """Without the keys that belong to the kind of model that `kind` takes the place of.

    Keys that an override sets itself stay. A `training` section goes with the network it was
    written for when the new model has no use for one.
    """
    root = written.value
    model = root.get("model") if isinstance(root, dict) else None
    if not isinstance(root, dict) or not isinstance(model, dict):
        return written, ()
    old = model.get("kind", "pretrained" if "architecture" in model else None)
    if old is None or old == kind:
        return written, ()
    gone = [f"model.{key}" for key in model if key != "kind" and f"model.{key}" not in chosen]
    by_library = kinds_with(lambda traits: traits.trained_by == "library")
    if kind in by_library and not any(path.split(".")[0] == "training" for path in chosen):
        gone += ["training"] if "training" in root else []
    if not gone:
        return written, ()
    kept: dict[str, Plain] = {key: value for key, value in root.items() if key not in gone}
    kept["model"] = {key: value for key, value in model.items() if f"model.{key}" not in gone}
    note = f"model.kind is now {kind}; removed with {yaml_value_text(old)}: {', '.join(gone)}"
    return ParsedYaml(kept, _without(written.places, gone)), (note,)


def _without(places: Mapping[str, Place], gone: Sequence[str]) -> dict[str, Place]:
    return {
        path: place
        for path, place in places.items()
        if not any(path == lost or path.startswith(f"{lost}.") for lost in gone)
    }
