"""Canonical JSON: one encoding per value, with limits for hostile input."""

from __future__ import annotations

import math
from collections.abc import Mapping

from trainwright.core.files import Json, hash_value, parse_json, to_json
from trainwright.core.limits import MOST_CHECKPOINT_JSON_BYTES

_TAG = "$float"
_NOT_FINITE = ("nan", "inf", "-inf")


class Damaged(ValueError):
    """A file is corrupt; the message says how."""


def write_canonical(value: Json) -> bytes:
    """Canonical encoding of a value: sorted keys, indented, UTF-8."""
    return to_json(value).encode()


def read_canonical(data: bytes) -> Json:
    """Inverse of `write_canonical`; any other encoding of the same value is refused.

    Raises:
        Damaged: not JSON, too long, too deep, or not canonical.
    """
    value = read_strict(data)
    try:
        same = write_canonical(value) == data
    except (ValueError, RecursionError):
        same = False
    if not same:
        raise Damaged("not spelt as it was written")
    return value


def read_strict(data: bytes) -> Json:
    """Read JSON without non-finite numbers.

    Raises:
        Damaged: invalid, too long or too deep.
    """
    if len(data) > MOST_CHECKPOINT_JSON_BYTES:
        raise Damaged(
            f"{len(data)} bytes of JSON are more than the limit of {MOST_CHECKPOINT_JSON_BYTES}"
        )
    try:
        return parse_json(data.decode())
    except ValueError as error:
        raise Damaged(f"not JSON: {error}") from None


def write_sealed(content: Mapping[str, Json], version: int) -> bytes:
    """Document with its format version and its own hash."""
    numbered = {"format": version, **content}
    return write_canonical({"content": numbered, "sha256": hash_value(numbered)})


def read_sealed(data: bytes, *versions: int) -> Json:
    """Inverse of `write_sealed` for any of these versions.

    Raises:
        Damaged: any bit has changed, or the format is another one.
    """
    outer = read_canonical(data)
    try:
        content = outer["content"]
        if hash_value(content) != outer["sha256"]:
            raise Damaged("its hash is not the one in it")
        if content["format"] not in versions:
            known = ", ".join(map(str, versions))
            raise Damaged(f"of format {content['format']}, this version reads {known}")
    except (KeyError, TypeError, AttributeError) as error:
        raise Damaged(f"no content with a hash: {error}") from None
    return content


def read_count(value: Json) -> int:
    """A count in a document.

    Raises:
        ValueError: not a count.
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(f"{value!r} is not a count")
    return value


def pack(value: Json) -> Json:
    """Copy of `value` as strict JSON: non-finite numbers become `{"$float": name}`.

    Raises:
        TypeError: a value or key that JSON does not support.
    """
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {_TAG: repr(value)}
    if isinstance(value, list | tuple):
        return [pack(item) for item in value]
    if isinstance(value, dict):
        if not all(isinstance(key, str) and key != _TAG for key in value):
            raise TypeError("the keys of a checkpoint's values are strings other than '$float'")
        return {key: pack(item) for key, item in value.items()}
    raise TypeError(f"a checkpoint's values cannot hold a {type(value).__name__}")


def unpack(value: Json) -> Json:
    """Inverse of `pack`. Tuples have become lists.

    Raises:
        Damaged: `pack` has not made it.
    """
    if isinstance(value, list):
        return [unpack(item) for item in value]
    if isinstance(value, dict):
        if set(value) == {_TAG}:
            if value[_TAG] not in _NOT_FINITE:
                raise Damaged(f"{value[_TAG]!r:.40} is no number")
            return float(value[_TAG])
        if _TAG in value:
            raise Damaged(f"{_TAG} stands beside other keys")
        return {key: unpack(item) for key, item in value.items()}
    return value
