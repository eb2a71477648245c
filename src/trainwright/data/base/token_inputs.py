"""Tokens as inputs: segments of a text, whole texts, pairs of answers, and what a teacher
predicts of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, NamedTuple, final

import numpy as np
import numpy.typing as npt

from trainwright.data.base.inputs import Floats, Inputs, Integers, TableInputs
from trainwright.data.base.levels import NO_LEVELS, Levels

Tokens = npt.NDArray[np.unsignedinteger[Any]]
"""Tokens [T], uint16 or uint32."""

TokenDtype = Literal["uint16", "uint32"]

Mask = npt.NDArray[np.bool_] | Literal["all"]
"""Which tokens count as targets, bool [T]; "all" where every token does."""

DOCUMENT_END = "\x1e"
"""What stands behind each document where there are several: U+001E, the ASCII record separator."""

TEACHER_TOKENS, TEACHER_LOGS = "teacher_tokens", "teacher_logs"
"""Names of the teacher's tokens and log-probabilities in a batch."""


def token_dtype(size: int) -> TokenDtype:
    """Narrowest type for the tokens of a vocabulary of this size."""
    return "uint16" if size <= 2**16 else "uint32"


def from_the_beginning() -> Integers:
    """One start, at 0."""
    return np.zeros(1, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class Sources:
    """Consecutive sources of a text: start positions, int64 [S] from 0, and names. An unmixed text
    is one unnamed source."""

    starts: Integers = field(default_factory=from_the_beginning)
    names: tuple[str, ...] = ("",)

    def of(self, places: Integers) -> Integers:
        """Source code of each position of the text."""
        return last_begun(self.starts, places)


def last_begun(begins: Integers, places: Integers) -> Integers:
    """Index of the last of `begins` at or before each position."""
    return np.asarray(np.searchsorted(begins, places, side="right") - 1, np.int64)


def _nothing() -> Integers:
    return np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class TokenInputs(Inputs):
    """N segments of one sequence of tokens [T], which may be memory-mapped.

    Segment i is the `lengths[i]` tokens predicted from position `starts[i]` on, each from the
    preceding tokens of its document (`documents` are start positions, 0 first). No document spans
    two of the `sources`. `mask` says which tokens count as targets, `byte_counts` [V] how many
    bytes of text each token of the vocabulary stands for; empty where none is asked for.
    """

    tokens: Tokens
    starts: Integers
    lengths: Integers
    documents: Integers = field(default_factory=from_the_beginning)
    sources: Sources = field(default_factory=Sources)
    mask: Mask = "all"
    byte_counts: Integers = field(default_factory=_nothing)

    kind: ClassVar[str] = "tokens"
    are_samples: ClassVar[bool] = False

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def segments(self) -> TokenInputs:
        """Itself."""
        return self

    def beside(self, _positions: Integers) -> Mapping[str, npt.NDArray[Any]]:
        """What the loss knows of targets [N] beside them."""
        return {}

    @property
    def beside_bytes(self) -> int:
        """Of one of them."""
        return 0

    def owners(self) -> Integers:
        """Document index of each segment, int64 [N]."""
        return last_begun(self.documents, self.starts)

    def document_starts(self) -> Integers:
        """Start positions of the documents of these (ascending) segments."""
        owners = self.owners()
        return self.documents[owners[_firsts(owners)]]

    def document_lengths(self) -> Integers:
        """Length in tokens of each of these documents."""
        owners = self.owners()
        firsts = _firsts(owners)
        lengths: Integers = self._ends(firsts) - self.documents[owners[firsts]]
        return lengths

    def source_spans(self) -> Integers:
        """For each source with a segment, ascending: its code and the half-open range of predicted
        positions, int64 [S, 3]."""
        codes = self.sources.of(self.starts)
        firsts = _firsts(codes)
        return np.stack([codes[firsts], self.starts[firsts], self._ends(firsts)], axis=1)

    def rows_of_sources(self) -> Mapping[str, Integers]:
        """Segments of each source of a mixture."""
        codes = self.sources.of(self.starts)
        named = [(code, name) for code, name in enumerate(self.sources.names) if name]
        return {name: np.flatnonzero(codes == code) for code, name in named}

    def target_counts(self) -> Integers:
        """Tokens of each segment that count as targets, int64 [N]."""
        if isinstance(self.mask, str):
            return self.lengths
        spans = zip(self.starts.tolist(), self.lengths.tolist(), strict=True)
        counts = [np.count_nonzero(self.mask[start : start + n]) for start, n in spans]
        return np.array(counts, dtype=np.int64)

    @property
    def levels(self) -> Levels:
        """Bytes of the text of the targets of each segment."""
        if not len(self.byte_counts):
            return NO_LEVELS
        spans = zip(self.starts.tolist(), self.lengths.tolist(), strict=True)
        counts = [self._bytes(slice(start, start + n)) for start, n in spans]
        return Levels(text_bytes=np.array(counts, dtype=np.float64))

    def _bytes(self, segment: slice) -> int:
        counts = self.byte_counts[self.tokens[segment]]
        return int((counts if isinstance(self.mask, str) else counts * self.mask[segment]).sum())

    def take(self, rows: Integers) -> TokenInputs:
        """The given segments, in the given order."""
        return replace(self, starts=self.starts[rows], lengths=self.lengths[rows])

    def columns(self) -> TableInputs:
        """A text has none: the rules refuse a model of columns."""
        raise AssertionError("the rules refuse a model of columns for a text")

    def arrays(self, _start: int, _stop: int, /) -> Mapping[str, npt.NDArray[Any]]:
        """A text is scored by its segments."""
        raise AssertionError("a text is scored by its segments")

    def document_sizes(self) -> Floats:
        """As `document_lengths`."""
        return self.document_lengths().astype(np.float64)

    def _ends(self, firsts: Integers) -> Integers:
        """End positions of runs of segments that begin at the segments `firsts`."""
        lasts = np.append(firsts[1:], len(self.starts)) - 1
        ends: Integers = self.starts[lasts] + self.lengths[lasts]
        return ends


def _firsts(codes: Integers) -> Integers:
    """Start indices of runs of equal codes."""
    return np.flatnonzero(np.diff(codes, prepend=-1))


class Truncation(NamedTuple):
    """Rows that were longer than a model reads, the tokens that they lost, and the tokens of all
    rows before."""

    rows: int = 0
    lost: int = 0
    tokens: int = 0


NOTHING_CUT = Truncation()


@dataclass(frozen=True, slots=True)
class TextInputs(Inputs):
    """N texts, or pairs of texts, as the tokens of a tokenizer.

    Row i is the `lengths[i]` tokens [T] from `starts[i]` on, which may be memory-mapped. The first
    `firsts[i]` are of segment 0, the others of segment 1, the second text of a pair. `pad` is what
    stands behind the end of a shorter row.
    """

    tokens: Tokens
    starts: Integers
    lengths: Integers
    firsts: Integers
    pad: int
    is_paired: bool = False
    cut: Truncation = NOTHING_CUT

    kind: ClassVar[str] = "texts"
    noun: ClassVar[str] = "texts"
    rows_at_once: ClassVar[int] = 128

    def __len__(self) -> int:
        return len(self.starts)

    def take(self, rows: Integers) -> TextInputs:
        """The given rows, in the given order."""
        return replace(
            self,
            starts=self.starts[rows],
            lengths=self.lengths[rows],
            firsts=self.firsts[rows],
        )

    def columns(self) -> TableInputs:
        """Tokens are no columns: the linear baseline encodes the texts itself."""
        raise AssertionError("the rules refuse a model of columns for tokens")

    def arrays(self, start: int, stop: int, /) -> Mapping[str, npt.NDArray[Any]]:
        """As `padded`, to the longest of these rows."""
        rows = np.arange(start, min(stop, len(self)))
        return self.padded(rows, int(self.lengths[rows].max(initial=1)))

    def scoring_order(self) -> Integers:
        """By length, so that little is padded."""
        return np.argsort(self.lengths, kind="stable")

    def padded(self, rows: Integers, width: int) -> dict[str, npt.NDArray[Any]]:
        """The arguments of an encoder, int64 [B, W]: tokens, what of them is no padding, and of
        pairs the segments."""
        places = np.arange(width)
        within = places < self.lengths[rows][:, None]
        sources = (self.starts[rows][:, None] + places)[within]
        ids = np.full(within.shape, self.pad, dtype=np.int64)
        ids[within] = self.tokens[sources]
        arrays = {"input_ids": ids, "attention_mask": within.astype(np.int64)}
        if self.is_paired:
            second = within & (places >= self.firsts[rows][:, None])
            arrays["token_type_ids"] = second.astype(np.int64)
        return arrays


def _unknown() -> Floats:
    return np.empty(0)


@dataclass(frozen=True, slots=True)
class PreferenceInputs(Inputs):
    """N pairs of answers: segment 2i is the chosen answer of pair i, segment 2i + 1 the rejected
    one. `reference` float64 [2N] are their log-probabilities by the base, and `scale` [2N] what
    the difference to them is multiplied with, so that it is a reward; both are empty until the
    base has scored the answers."""

    answers: TokenInputs
    reference: Floats = field(default_factory=_unknown)
    scale: Floats = field(default_factory=_unknown)

    kind: ClassVar[str] = "preferences"
    noun: ClassVar[str] = "pairs"

    def __len__(self) -> int:
        return len(self.answers) // 2

    def take(self, rows: Integers) -> PreferenceInputs:
        """The given pairs, in the given order."""
        both = np.stack([2 * rows, 2 * rows + 1], axis=1).reshape(-1)
        known = len(self.reference) > 0
        return replace(
            self,
            answers=self.answers.take(both),
            reference=self.reference[both] if known else self.reference,
            scale=self.scale[both] if known else self.scale,
        )

    @property
    def segments(self) -> TokenInputs:
        """The answers, two for each pair."""
        return self.answers

    def tokens_of_documents(self) -> Integers:
        """Tokens of each prompt with its answer, [2N]."""
        begins = self.answers.documents[self.answers.owners()]
        sizes: Integers = self.answers.starts + self.answers.lengths - begins
        return sizes

    def from_likelihoods(self, nll: Floats, /) -> Floats:
        """Margins [N, 1]."""
        assert len(self.reference), "the base has scored the answers"
        rewards = (self.scale * (-nll[:, 0] - self.reference)).reshape(-1, 2)
        margins: Floats = rewards[:, :1] - rewards[:, 1:]
        return margins

    def columns(self) -> TableInputs:
        """Answers have none: the rules refuse a model of columns."""
        raise AssertionError("the rules refuse a model of columns for answers")

    def arrays(self, _start: int, _stop: int, /) -> Mapping[str, npt.NDArray[Any]]:
        """Answers are scored by their segments."""
        raise AssertionError("answers are scored by their segments")


@final
@dataclass(frozen=True, slots=True)
class SoftTokens:
    """Of P positions [P] (ascending) the K likeliest tokens [P, K] of a teacher, and their
    log-probabilities at its temperature, float32 [P, K + 1]; the last is that of all other tokens
    together. All may be memory-mapped."""

    positions: Integers
    tokens: Tokens
    log_probabilities: npt.NDArray[np.float32]

    @property
    def kept(self) -> int:
        """K."""
        return int(self.tokens.shape[1])


def _untaught() -> SoftTokens:
    none = np.zeros((0, 1), np.uint32)
    return SoftTokens(np.zeros(0, np.int64), none, np.zeros((0, 2), np.float32))


@final
@dataclass(frozen=True, slots=True)
class TaughtTokens(TokenInputs):
    """Segments whose tokens a teacher predicted."""

    soft: SoftTokens = field(default_factory=_untaught)

    def beside(self, positions: Integers) -> Mapping[str, npt.NDArray[Any]]:
        """`teacher_tokens` int32 [N, K] and `teacher_logs` float32 [N, K + 1] of targets at these
        positions [N]; what stands at one that does not count is without meaning."""
        known = self.soft.positions
        at = np.minimum(np.searchsorted(known, positions), len(known) - 1)
        assert not isinstance(self.mask, str) or bool((known[at] == positions).all())
        return {
            TEACHER_TOKENS: self.soft.tokens[at].astype(np.int32),
            TEACHER_LOGS: self.soft.log_probabilities[at],
        }

    @property
    def beside_bytes(self) -> int:
        """Of one position."""
        return 8 * self.soft.kept + 4


class AnswerSpans(NamedTuple):
    """A answers of C chats: `chats` [A] is the chat of each, `messages` [A] its message, `starts`
    and `stops` [A] its half-open range in the tokens of the chat. `rows` [C] are the rows of the
    chats in their file, `lines` what each is called."""

    chats: Integers
    messages: Integers
    starts: Integers
    stops: Integers
    rows: Integers
    lines: tuple[str, ...]

    @property
    def lengths(self) -> Integers:
        """Tokens of each answer."""
        lengths: Integers = self.stops - self.starts
        return lengths

    def firsts(self) -> Integers:
        """Where the first answer of each chat begins, [C]."""
        return self.starts[np.flatnonzero(np.diff(self.chats, prepend=-1))]
