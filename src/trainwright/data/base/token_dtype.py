"""Width of tokens: as many bits as the vocabulary needs."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import numpy.typing as npt

Tokens = npt.NDArray[np.unsignedinteger[Any]]
"""Tokens [T], uint16 or uint32."""

TokenDtype = Literal["uint16", "uint32"]

Mask = npt.NDArray[np.bool_] | Literal["all"]
"""Which tokens count as targets, bool [T]; "all" where every token does."""


def token_dtype(size: int) -> TokenDtype:
    """Narrowest type for the tokens of a vocabulary of this size."""
    return "uint16" if size <= 2**16 else "uint32"
