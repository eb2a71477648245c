"""`data` of `kind: tokens`: a text, read as a sequence of tokens."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from trainwright.contract.feeding import Feeding
from trainwright.contract.section import Fraction
from trainwright.contract.sources import Reading


class TokenData(Feeding):
    """One text, divided by position: the beginning trains, then the validation part, then the
    test part, so that no part lies inside another. Where documents are divided by a separator, no
    document lies in two parts."""

    kind: Literal["tokens"]

    path: str
    """A text file, a folder of texts (`.txt`, `.md`), a table with a column of texts (see `text`),
    or a token file that `write_token_file` made. Relative to the contract's folder. The tokens are
    written once into the cache and then mapped into memory."""

    text: str = ""
    """The column of a table (JSON Lines, Parquet, CSV and whatever else `data.path` of a table may
    be) whose values are the documents. Each is followed by the mark U+001E, which is a token of its
    own, and so is each file of a folder."""

    vocabulary: Literal["characters", "bytes", "bpe", "tokenizer"] = "characters"
    """What a token is: a `characters` vocabulary holds those of the training part, and one token
    for all others; `bytes` are the 256 values; `bpe` are pieces of words that the training part has
    often (byte-level byte-pair encoding; Sennrich et al. 2016, arXiv:1508.07909, section 3.2);
    `tokenizer` is the one of a file. A token file has its own."""

    vocabulary_size: Annotated[int, Field(ge=256, le=65_536)] = 4096
    """Tokens of a `bpe` vocabulary, at most: the 256 bytes and what is joined of them. More tokens
    make texts shorter and the embedding larger."""

    tokenizer: str = ""
    """A `tokenizer.json` as the tokenizers library writes it, relative to the contract's folder;
    beside `vocabulary: tokenizer`."""

    separator: str = ""
    """What stands between two documents, for example two line ends; it belongs to the document
    before it. Empty: the text is one document. A token file says itself where its documents
    begin."""

    windows: Literal["across", "packed"] = "across"
    """How windows are cut: `across` documents, as if the text were one; or whole documents `packed`
    into windows, none of which sees another."""

    long_documents: Literal["split", "cut"] = "split"
    """What happens to a training document that is longer than a packed window: `split` makes it
    several, `cut` keeps its beginning. What is lost is told."""

    validation: Fraction = 0.05
    """Share of the text that steers the training."""

    test: Fraction = 0.05
    """Share of the text, at its end, that is opened once, for the verdict."""

    reading: Reading = Reading()
    """How the text is read, and how far its file is trusted."""
