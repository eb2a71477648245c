"""Log-probabilities of continuations: in batches, one by one, and token by token with a cache."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from trainwright.contract.sections.model.gpt import Gpt  # noqa: E402
from trainwright.core.errors import Mistake  # noqa: E402
from trainwright.model.causal_attention import KeyValueCache  # noqa: E402
from trainwright.model.gpt.gpt_network import GptNetwork  # noqa: E402
from trainwright.model.input_shape import TokenShape  # noqa: E402
from trainwright.predictor.continuation_likelihood import LikelihoodScorer  # noqa: E402

pytestmark = pytest.mark.torch

CONTEXT, TOKENS = 24, 17


@pytest.fixture(scope="module")
def network() -> GptNetwork:
    torch.manual_seed(3)
    section = Gpt(kind="gpt", layers=2, heads=4, kv_heads=2, width=32, context=CONTEXT)
    found = GptNetwork(section, TokenShape(TOKENS)).eval().requires_grad_(False)
    for parameter in found.parameters():
        parameter.mul_(4)
    return found


def pairs(count: int = 12) -> list[tuple[np.ndarray, np.ndarray]]:
    drawn = np.random.default_rng(0)
    return [
        (
            drawn.integers(0, TOKENS, drawn.integers(1, 30)).astype(np.uint16),
            drawn.integers(0, TOKENS, drawn.integers(1, 6)).astype(np.uint16),
        )
        for _ in range(count)
    ]


def test_a_batch_gives_what_each_gives_alone(network: GptNetwork) -> None:
    scorer = LikelihoodScorer(network, CONTEXT, TOKENS)
    together = scorer.score(pairs())
    for one, pair in zip(together, pairs(), strict=True):
        (alone,) = scorer.score([pair])
        assert one.log_probability == pytest.approx(alone.log_probability, abs=2e-5)
        assert one[1:] == alone[1:]


def test_it_is_the_chain_rule_token_by_token_through_the_cache(network: GptNetwork) -> None:
    scorer = LikelihoodScorer(network, CONTEXT, TOKENS)
    for prompt, continuation in pairs():
        (found,) = scorer.score([(prompt, continuation)])
        kept = np.concatenate([prompt, continuation]).astype(np.int64)[-CONTEXT - 1 :]
        begin = len(kept) - len(continuation)
        cache, total, greedy = KeyValueCache(), 0.0, True
        pending = kept[:begin]
        for token in kept[begin:].tolist():
            logits = network.extend(torch.from_numpy(pending[None]), cache)[0].double()
            total += float(torch.log_softmax(logits, 0)[token])
            greedy &= int(logits.argmax()) == token
            pending = np.array([token])
        assert found.log_probability == pytest.approx(total, abs=2e-5)
        assert found.is_greedy == greedy
        assert found.unread == len(prompt) + len(continuation) - len(kept)


def test_the_likeliest_token_is_greedy(network: GptNetwork) -> None:
    prompt = np.array([1, 2, 3], np.uint16)
    best = int(network(torch.tensor([[1, 2, 3]]))[0, -1].argmax())
    scorer = LikelihoodScorer(network, CONTEXT, TOKENS)
    for token in range(TOKENS):
        (found,) = scorer.score([(prompt, np.array([token], np.uint16))])
        assert found.is_greedy == (token == best)


@pytest.mark.parametrize("sizes", [(0, 1), (1, 0), (1, CONTEXT + 1)])
def test_what_cannot_be_scored_is_refused(network: GptNetwork, sizes: tuple[int, int]) -> None:
    prompt, continuation = (np.ones(size, np.uint16) for size in sizes)
    with pytest.raises(Mistake):
        LikelihoodScorer(network, CONTEXT, TOKENS).score([(prompt, continuation)])
