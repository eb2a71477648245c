"""`data` of `kind: tokens`: a text, read as a sequence of tokens."""

from __future__ import annotations

from typing import ClassVar, Literal

from trainwright.contract.sections.data.token_windows import TokenFeeding
from trainwright.contract.sections.section import Fraction


class TokenData(TokenFeeding):
    """One text, divided by position: the beginning trains, then the validation part, then the
    test part, so that no part lies inside another. Where documents are divided by a separator, no
    document lies in two parts. With `sampling: {kind: mixture}` each source is divided so."""

    kind: Literal["tokens"]

    path: str
    """A text file, a folder of texts (`.txt`, `.md`), a table with a column of texts (see `text`),
    or a token file that `data tokenize` or `write_token_file` made. Relative to the contract's
    folder. The tokens are written once into the cache and then mapped into memory."""

    text: str = ""
    """The column of a table (JSON Lines, Parquet, CSV and whatever else `data.path` of a table may
    be) whose values are the documents. Each is followed by the mark U+001E, which is a token of its
    own, and so is each file of a folder."""

    separator: str = ""
    """What stands between two documents, for example two line ends; it belongs to the document
    before it. Empty: the text is one document. Files of a folder are documents already, and so are
    rows of a table; a token file says itself where its documents begin. There the separator
    divides only a text that is judged later."""

    long_documents: Literal["split", "cut"] = "split"
    """What happens to a training document that is longer than `model.context`, packed or padded:
    `split` makes it several, `cut` keeps its beginning. What is lost is reported."""

    test: Fraction = 0.05
    """Share of the text, at its end, that is opened once, for the verdict."""

    samplings: ClassVar[tuple[str, ...]] = ("uniform", "mixture")
    sampling_limits: ClassVar[str] = (
        "windows of a text have no classes and no columns, and each is a block already"
    )

    @property
    def source(self) -> str:
        """The path of its rows; empty where they are named otherwise."""
        return self.path

    @property
    def slice_columns(self) -> tuple[str, ...]:
        """The columns that rows can be sliced by; empty where the files say it."""
        columns = ("position", "tokens")
        return ("source", *columns) if self.sampling.kind == "mixture" else columns
