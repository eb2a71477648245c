"""`data` of `kind: tokens`: a text, read as a sequence of tokens."""

from __future__ import annotations

from typing import Literal

from trainwright.contract.feeding import Feeding
from trainwright.contract.section import Fraction
from trainwright.contract.sources import Reading


class TokenData(Feeding):
    """One text, divided by position: the beginning trains, then the validation part, then the
    test part, so that no part lies inside another."""

    kind: Literal["tokens"]

    path: str
    """A text file in UTF-8, or a token file that `write_token_file` made, which is mapped into
    memory and not read; relative to the contract's folder."""

    vocabulary: Literal["characters", "bytes"] = "characters"
    """What a token is: a `characters` vocabulary holds those of the training part, and one token
    for all others; `bytes` are the 256 values. A token file has its own."""

    validation: Fraction = 0.05
    """Share of the text that steers the training."""

    test: Fraction = 0.05
    """Share of the text, at its end, that is opened once, for the verdict."""

    reading: Reading = Reading()
    """How the text is read, and how far its file is trusted."""
