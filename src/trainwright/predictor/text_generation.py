"""Generation of text, token by token. Needs torch."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, final

import numpy as np
import torch
from torch import Tensor

from trainwright.core.errors import Mistake, Problem
from trainwright.core.files import hash_value
from trainwright.data.base.token_inputs import Tokens, token_dtype
from trainwright.data.encoders.vocabulary import UNKNOWN, TextVocabulary, TokenEncoding
from trainwright.model.causal_attention import KeyValueCache
from trainwright.model.model_call import TokenDecoder
from trainwright.predictor.network_scorer import NetworkScorer
from trainwright.predictor.predictor import Predictor

DOCUMENT_END = "\x1e"
"""Behind each document of the training texts, where these are rows or files."""

_BROKEN = "\N{REPLACEMENT CHARACTER}"


@final
@dataclass(frozen=True, slots=True)
class DecodingOptions:
    """How tokens are chosen.

    `temperature` divides the logits; 0 takes the likeliest token. `top_k` keeps so many tokens, 0
    all (Fan et al. 2018, arXiv:1805.04833, section 5.2). `top_p` keeps the likeliest tokens whose
    probabilities reach that sum (Holtzman et al. 2020, arXiv:1904.09751, section 3.1). A text ends
    before the first of `stop`, or after `tokens`.
    """

    tokens: int = 200
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    stop: tuple[str, ...] = (DOCUMENT_END,)
    seed: int = 0


@final
@dataclass(frozen=True, slots=True)
class Continuation:
    """A generated text, its tokens, and whether a stop string or the limit ended it. `unread` are
    tokens of the prompt that no window had room for, `unknown` characters that the vocabulary
    lacks."""

    text: str
    tokens: int
    ended_by: Literal["stop", "limit"]
    unread: int = 0
    unknown: int = 0


@final
class TextGenerator:
    """Continues prompts with a network in evaluation mode and its vocabulary."""

    def __init__(
        self,
        network: TokenDecoder,
        vocabulary: TextVocabulary,
        decoding: DecodingOptions,
        device: torch.device | None = None,
    ) -> None:
        self._network = network
        self._device = device
        self._vocabulary = vocabulary
        self._decoding = decoding

    def generate(
        self,
        prompt: str | Sequence[str],
        row: int = 0,
        tell: Callable[[str], object] = lambda _: None,
    ) -> Continuation:
        """Continue a prompt, a text or pieces of one between which no token reaches; `tell` gets
        the text piece by piece.

        The random numbers depend on the seed and `row` alone. A window that is full begins again
        with its later half.

        Raises:
            Mistake: the prompt has no token.
        """
        pieces = [prompt] if isinstance(prompt, str) else prompt
        return self.go_on(np.concatenate(self._vocabulary.encode_each(pieces)), row, tell)

    def go_on(
        self, given: Tokens, row: int = 0, tell: Callable[[str], object] = lambda _: None
    ) -> Continuation:
        """As `generate`, for the tokens of a prompt [P]."""
        if not len(given):
            raise Mistake(
                Problem("the prompt is empty", expected="a text to continue", fix="write one")
            )
        context, generator = self._network.context, self._random(row)
        history = given.astype(np.int64).tolist()
        first = len(history)
        pending, cache = history[-(context - 1) :], KeyValueCache()
        shown, text, ended_by = 0, "", "limit"
        for _ in range(self._decoding.tokens):
            if cache.length + len(pending) > context:
                pending, cache = history[-(context // 2) :], KeyValueCache()
            history.append(self._choose(self._logits(pending, cache), generator))
            pending = history[-1:]
            text = self._decode(history[first:])
            if (end := self._stop_in(text)) >= 0:
                text, ended_by = text[:end], "stop"
                break
            ready = self._ready(text)
            tell(text[shown:ready])
            shown = max(shown, ready)
        tell(text[shown:])
        return Continuation(
            text,
            len(history) - first,
            "stop" if ended_by == "stop" else "limit",
            max(0, first - (context - 1)),
            int((given == UNKNOWN).sum()) if self._vocabulary.kind == "characters" else 0,
        )

    @torch.no_grad()
    def _logits(self, tokens: list[int], cache: KeyValueCache) -> Tensor:
        logits = self._network.extend(torch.tensor([tokens], device=self._device), cache)[0]
        found = logits.double().cpu()[: self._vocabulary.size]
        if self._vocabulary.kind == "characters":
            # No text holds the mark of a character that is unknown.
            found[UNKNOWN] = -math.inf
        return found

    def _choose(self, logits: Tensor, generator: torch.Generator) -> int:
        decoding = self._decoding
        if decoding.temperature == 0:
            return int(logits.argmax())
        ordered, tokens = torch.sort(logits / decoding.temperature, descending=True, stable=True)
        if decoding.top_k:
            ordered = ordered[: decoding.top_k]
        shares = torch.softmax(ordered, dim=0)
        before = shares.cumsum(dim=0) - shares
        shares = torch.where(before < decoding.top_p, shares, 0.0)
        return int(tokens[torch.multinomial(shares, 1, generator=generator)])

    def _random(self, row: int) -> torch.Generator:
        of_row = hash_value({"seed": self._decoding.seed, "row": row})
        return torch.Generator().manual_seed(int(of_row[:15], 16))

    def _decode(self, tokens: list[int]) -> str:
        kind = token_dtype(self._vocabulary.size)
        return self._vocabulary.decode(np.array(tokens, dtype=kind))

    def _stop_in(self, text: str) -> int:
        """Where the first stop string begins, or -1."""
        found = (text.find(one) for one in self._decoding.stop)
        return min((at for at in found if at >= 0), default=-1)

    def _ready(self, text: str) -> int:
        """How much of a text no later token changes: not a character that is not yet whole, nor
        what may become a stop string."""
        whole = len(text.rstrip(_BROKEN))
        for one in self._decoding.stop:
            for size in range(min(len(one) - 1, whole), 0, -1):
                if text.endswith(one[:size]):
                    whole = min(whole, len(text) - size)
                    break
        return whole


def text_generator(
    predictor: Predictor, encoding: TokenEncoding, decoding: DecodingOptions
) -> TextGenerator:
    """Continues prompts by the network of a predictor, on its device."""
    scorer = predictor.scorer
    assert isinstance(scorer, NetworkScorer), "a decoder is a network"
    network = scorer.network
    assert isinstance(network, TokenDecoder), "the rules ask for a model that writes"
    device = next(scorer.network.parameters()).device
    return TextGenerator(network, encoding.vocabulary, decoding, device)
