"""Log-probabilities of continuations by a decoder. Needs torch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple, final

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from trainwright.core.errors import Mistake, Problem
from trainwright.data.base.inputs import Integers
from trainwright.data.base.token_inputs import Tokens
from trainwright.engine.execution.adaptive_eval_batch import AdaptiveEvalBatch
from trainwright.predictor.network_scorer import NetworkScorer
from trainwright.predictor.predictor import Predictor

_PLACES = 2**14
_LOGITS = 2**27


@final
class ContinuationLikelihood(NamedTuple):
    """The summed log-probability (nats) of the tokens of a continuation, their number, whether each
    is the likeliest at its place, and how many tokens of the prompt no window had room for."""

    log_probability: float
    tokens: int
    is_greedy: bool
    unread: int


@final
@dataclass(frozen=True, slots=True)
class LikelihoodScorer:
    """Scores continuations by a decoder in evaluation mode with `outputs` logits a token, whose
    windows have at most `context` tokens. A prompt that does not fit loses its beginning."""

    network: nn.Module
    context: int
    outputs: int
    portions: AdaptiveEvalBatch = field(default_factory=AdaptiveEvalBatch)

    def score(self, asked: Sequence[tuple[Tokens, Tokens]]) -> list[ContinuationLikelihood]:
        """Of each prompt [P] with its continuation [C].

        Rows are padded on the right: a causal model reads no padding, so a batch changes a value by
        rounding alone.

        Raises:
            Mistake: a continuation is longer than the context, or a prompt is empty.
        """
        for prompt, continuation in asked:
            if not len(prompt) or not 0 < len(continuation) <= self.context:
                raise _unscorable(len(prompt), len(continuation), self.context)
        assert not self.network.training, "a scorer's model is in evaluation mode"
        with torch.no_grad():
            return self.portions.complete(partial(self._scored, asked))

    def _scored(self, asked: Sequence[tuple[Tokens, Tokens]]) -> list[ContinuationLikelihood]:
        rows: list[Integers] = [
            np.concatenate(one).astype(np.int64)[-self.context - 1 :] for one in asked
        ]
        counts = np.array([len(one) for _, one in asked])
        lengths = np.array([len(one) - 1 for one in rows])
        found: dict[int, tuple[float, bool]] = {}
        # The longest first: memory that does not suffice shows at once.
        order = np.lexsort((-counts, -lengths)).tolist()
        for batch in self._batches(order, lengths):
            found |= zip(batch, self._pass([rows[at] for at in batch], counts[batch]), strict=True)
        return [
            ContinuationLikelihood(
                found[at][0], len(one), found[at][1], len(prompt) + len(one) - len(rows[at])
            )
            for at, (prompt, one) in enumerate(asked)
        ]

    def _batches(self, order: Sequence[int], lengths: Integers) -> Iterator[list[int]]:
        start = 0
        while start < len(order):
            width = max(1, int(lengths[order[start]]))
            most = min(_PLACES, _LOGITS // self.outputs) // width
            rows = self.portions.rows(max(1, most))
            yield list(order[start : start + rows])
            start += rows

    def _pass(self, rows: Sequence[Integers], counts: Integers) -> Iterator[tuple[float, bool]]:
        """Log-probability and greediness of each row."""
        device = next(self.network.parameters()).device
        width = max(len(one) for one in rows)
        tokens = np.zeros((len(rows), width), np.int64)
        for at, one in enumerate(rows):
            tokens[at, : len(one)] = one
        inputs = torch.from_numpy(tokens).to(device)
        logits = self.network(inputs[:, :-1])
        for at, one in enumerate(rows):
            wanted = slice(len(one) - 1 - int(counts[at]), len(one) - 1)
            yield _summed(logits[at, wanted], inputs[at, 1:][wanted])


def _summed(logits: Tensor, target: Tensor) -> tuple[float, bool]:
    """The log-probability of a target [C] by its logits [C, V], and whether it is the likeliest."""
    log_q = functional.log_softmax(logits.float(), dim=-1)
    each = log_q.gather(1, target[:, None]).double()
    return float(each.sum()), bool((logits.argmax(dim=-1) == target).all())


def _unscorable(prompt: int, continuation: int, context: int) -> Mistake:
    if not prompt or not continuation:
        return Mistake(
            Problem(
                "a prompt or its continuation has no token",
                found=f"{prompt} and {continuation} tokens",
                expected="one at least",
            )
        )
    return Mistake(
        Problem(
            "a choice is longer than the model reads",
            found=f"{continuation:,} tokens",
            expected=f"at most {context:,}, the context",
            fix="shorten it, or ask a model with a longer context",
        )
    )


def likelihood_scorer(predictor: Predictor) -> LikelihoodScorer:
    """Scores continuations by the network of a predictor."""
    scorer = predictor.scorer
    assert isinstance(scorer, NetworkScorer), "a decoder is a network"
    return LikelihoodScorer(scorer.network, scorer.context, scorer.shape.outputs)
