"""`data` of `kind: tokens`, and the fields of data that becomes windows of tokens."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from trainwright.contract.sections.data.data_traits import Feeding
from trainwright.contract.sections.data.sources import Reading
from trainwright.contract.sections.section import Auto, Fraction, Section


class Padding(Section):
    """Length bucketing: batches of documents padded to the longest document of the batch.

    Buckets: the documents, sorted by length, are cut into buckets so that the total length after
    padding to the longest of each bucket is minimal. In each epoch every bucket is shuffled, the
    steps are cut from one bucket after the other, and the steps are shuffled. So a step has
    documents of like lengths, and short and long steps come in random order (Khomenko et al. 2016,
    arXiv:1708.05604)."""

    buckets: Auto | Annotated[int, Field(ge=1, le=256)] = "auto"
    """Most buckets; each has the documents of at least four steps, so that these differ from epoch
    to epoch. 1 draws each step from all documents. `auto`: doubled until that saves less than a
    hundredth of the places."""

    multiple: Annotated[int, Field(ge=1, le=4096)] = 1
    """A batch is as many places wide as its longest document, rounded up to a multiple of this, but
    never wider than `model.context`. 1 pads the least; larger ones make fewer widths, each of which
    compiled kernels are made for."""

    max_tokens: Literal["off"] | Annotated[int, Field(ge=1)] = "off"
    """Most places of a micro-batch, padding included, beside `training.batch_size`; at least
    `model.context` (as `--max-tokens` of fairseq, Ott et al. 2019, arXiv:1904.01038). A step has
    the documents that `effective_batch_size` says in any case, so its update stays: of long
    documents fewer are computed at once, and of short ones more."""


class TokenFeeding(Feeding):
    """Tokens in windows: what texts and chats share."""

    vocabulary: Literal["characters", "bytes", "bpe", "tokenizer"] = "characters"
    """What a token is: a `characters` vocabulary holds those of the training part, and one token
    for all others; `bytes` are the 256 values; `bpe` are pieces of words that the training part has
    often (byte-level byte-pair encoding; Sennrich et al. 2016, arXiv:1508.07909, section 3.2);
    `tokenizer` is the one of a file. A token file has its own."""

    vocabulary_size: Annotated[int, Field(ge=256, le=524_288)] = 4096
    """Tokens of a `bpe` vocabulary, at most: the 256 bytes and what is joined of them. More tokens
    make texts shorter and the embedding larger."""

    tokenizer: str = ""
    """A `tokenizer.json` as the tokenizers library writes it, relative to the contract's folder;
    beside `vocabulary: tokenizer`."""

    windows: Literal["across", "packed", "padded"] = "across"
    """How windows are cut: `across` documents, as if the text were one; whole documents `packed`
    into windows, none of which sees another; or each document a row of its own, `padded` to the
    longest of its batch."""

    padding: Padding = Padding()
    """How padded documents are put into batches; beside `windows: padded`."""

    long_documents: Literal["split", "cut", "exclude"] = "split"
    """What happens to a training document that is longer than `model.context`, packed or padded:
    `split` makes it several, `cut` keeps its beginning. What is lost is reported."""

    validation: Fraction = 0.05
    """Share of the text that steers the training."""

    test: Fraction = 0.05
    """Share of the text that is opened once, for the verdict."""

    reading: Reading = Reading()
    """How the text is read, and how far its file is trusted."""

    has_soft_tokens: ClassVar[bool] = True
    form: ClassVar[str] = "tokens"
    tasks: ClassVar[tuple[str, ...]] = ("generation",)

    split_fix: ClassVar[str] = "data.long_documents: split"
    """What keeps the whole of long documents; empty if nothing does."""

    @property
    def part_shares(self) -> tuple[str, dict[str, float]]:
        """The section where the shares of the parts stand, and those that are divided off."""
        return "data", {"validation": self.validation, "test": self.test}

    @property
    def file_reading(self) -> Reading:
        """How its files are read."""
        return self.reading

    @property
    def is_packed(self) -> bool:
        """Are documents packed into windows?"""
        return self.windows == "packed"

    @property
    def is_padded(self) -> bool:
        """Is each document a padded row of its own?"""
        return self.windows == "padded"

    @property
    def batch_tokens(self) -> Literal["off"] | int:
        """Most tokens of a micro-batch, padding included."""
        return self.padding.max_tokens if self.is_padded else "off"

    @property
    def has_tokens(self) -> bool:
        """Are targets counted in tokens rather than in rows?"""
        return True


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
