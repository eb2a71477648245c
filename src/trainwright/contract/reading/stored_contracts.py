"""Decided contracts that an earlier version stored: a key that it did not know counts as its
default."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import BaseModel

from trainwright.core.files import Json


def with_defaults(stored: Json, decided: BaseModel, written: BaseModel) -> Json:
    """A stored section with each absent key that has a default, compared with the same section as
    it is `written` now and as the plan `decided` it.

    The value is the one that was decided if the key is left at its default now too, for the plan
    decides what the default leaves open; else it is the default, so that the change is seen.
    """
    if not isinstance(stored, Mapping):
        return stored
    dumped = decided.model_dump(mode="json")
    filled: dict[str, Json] = dict(stored)
    for name, field in type(decided).model_fields.items():
        value = getattr(decided, name)
        other = getattr(written, name) if name in type(written).model_fields else value
        if name in stored:
            filled[name] = _inner(stored[name], value, other)
        elif not field.is_required() and not field.exclude:
            default = field.get_default(call_default_factory=True)
            if name not in type(written).model_fields or other == default:
                filled[name] = dumped[name]
            else:
                changed = decided.model_copy(update={name: default})
                filled[name] = changed.model_dump(mode="json", include={name})[name]
    return filled


def _inner(stored: Json, decided: object, written: object) -> Json:
    """The same inside a value: a section, a list of them, or some by name."""
    if isinstance(decided, BaseModel):
        return with_defaults(
            stored, decided, written if isinstance(written, BaseModel) else decided
        )
    if isinstance(decided, tuple) and isinstance(written, tuple) and isinstance(stored, list):
        if len(decided) == len(written) == len(stored):
            return [_inner(*each) for each in zip(stored, decided, written, strict=True)]
    elif isinstance(decided, Mapping) and isinstance(stored, Mapping):
        others = written if isinstance(written, Mapping) else {}
        return {
            name: _inner(value, decided[name], others.get(name, decided[name]))
            if name in decided
            else value
            for name, value in stored.items()
        }
    return stored
