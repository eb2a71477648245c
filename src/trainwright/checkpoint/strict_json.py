"""JSON that is exactly what was written: one spelling for a value, limits for hostile text."""

from __future__ import annotations

import json
import math

from trainwright.core.files import Json, to_json
from trainwright.core.limits import MOST_CHECKPOINT_JSON_BYTES

_TAG = "$float"


class Damaged(ValueError):
    """A file is not what was written; the text says how."""


def write_canonical(value: Json) -> bytes:
    """The one spelling of a value: sorted keys, indented, UTF-8."""
    return to_json(value).encode()


def read_canonical(data: bytes) -> Json:
    """Read what `write_canonical` wrote; any other spelling of the same value is refused.

    Raises:
        Damaged: not JSON, too long, too deep, or spelt otherwise.
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
    """Read JSON without numbers that are not finite.

    Raises:
        Damaged: not such JSON, too long or too deep.
    """
    if len(data) > MOST_CHECKPOINT_JSON_BYTES:
        raise Damaged(
            f"{len(data)} bytes of JSON are more than the limit of {MOST_CHECKPOINT_JSON_BYTES}"
        )
    try:
        return json.loads(
            data.decode(),
            parse_constant=_refuse,
            parse_float=_finite,
        )
    except RecursionError:
        raise Damaged("JSON nested too deeply") from None
    except ValueError as error:
        raise Damaged(f"not JSON: {error}") from None


def pack(value: Json) -> Json:
    """A copy of `value` as strict JSON: numbers that are not finite become `{"$float": name}`.

    Raises:
        TypeError: a value or key that JSON does not have.
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
    """Undo `pack`. Tuples have become lists."""
    if isinstance(value, list):
        return [unpack(item) for item in value]
    if isinstance(value, dict):
        if set(value) == {_TAG}:
            return float(value[_TAG])
        return {key: unpack(item) for key, item in value.items()}
    return value


def _refuse(constant: str) -> Json:
    raise ValueError(f"{constant} is not JSON")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text[:40]} is not finite")
    return value
