"""Memory of quantised matrices."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, assert_never

_GROUP, _NESTED_GROUP = 64, 256
"""Numbers with one scale, and scales with one."""
_TABLES_BYTES = 4 * 257
"""What the 256 values of a scale stand for, and their mean."""


def quantized_bytes(kind: Literal["nf4", "int8"], shapes: Iterable[tuple[int, int]]) -> int:
    """Bytes of matrices [rows, columns] with their scales (nf4: Dettmers et al. 2023,
    arXiv:2305.14314, section 3, double quantization)."""
    total = 0
    for rows, columns in shapes:
        numbers = rows * columns
        match kind:
            case "nf4":
                scales = -(-numbers // _GROUP)
                total += -(-numbers // 2) + scales
                total += 4 * -(-scales // _NESTED_GROUP) + _TABLES_BYTES
            case "int8":
                total += numbers + 4 * rows
            case _:
                assert_never(kind)
    return total
