"""Texts by a decoder: the same tokens with and without a cache, reproducible draws, and ends."""

from __future__ import annotations

from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from made_decoders import LLAMA, write_decoder  # noqa: E402
from trainwright.contract.sections.model.gpt import Gpt  # noqa: E402
from trainwright.core.errors import Mistake  # noqa: E402
from trainwright.data.encoders.vocabulary import TextVocabulary  # noqa: E402
from trainwright.model.causal_attention import KeyValueCache  # noqa: E402
from trainwright.model.families import network_family  # noqa: E402
from trainwright.model.gpt.gpt_network import GptNetwork  # noqa: E402
from trainwright.model.input_shape import TokenShape  # noqa: E402
from trainwright.predictor.text_generation import DecodingOptions, TextGenerator  # noqa: E402

pytestmark = pytest.mark.torch

LETTERS = TextVocabulary("characters", "".join(sorted("abcdefghij .")))
SECTIONS = [
    Gpt(kind="gpt", layers=2, heads=4, width=32, context=24),
    Gpt(kind="gpt", layers=2, heads=4, kv_heads=2, width=32, context=24, norm="rms", tied=False),
    Gpt(kind="gpt", layers=1, heads=2, width=16, context=24, positions="learned", bias="all"),
]


def network_of(section: Gpt, outputs: int = LETTERS.size) -> GptNetwork:
    torch.manual_seed(0)
    network = network_family(section).build(section, TokenShape(outputs))
    assert isinstance(network, GptNetwork)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.mul_(4)
    return network.eval()


@pytest.mark.parametrize("section", SECTIONS)
@torch.no_grad()
def test_the_cache_changes_no_logits(section: Gpt) -> None:
    network = network_of(section)
    tokens = torch.randint(0, LETTERS.size, (2, 24), generator=torch.Generator().manual_seed(1))
    whole = network(tokens)
    for cuts in ([24], [1] * 24, [5, 1, 1, 10, 7]):
        cache, at = KeyValueCache(), 0
        for size in cuts:
            found = network.extend(tokens[:, at : at + size], cache)
            at += size
            assert (found - whole[:, at - 1]).abs().max() < 1e-5
        assert cache.length == 24


@pytest.mark.parametrize("section", SECTIONS)
def test_the_likeliest_tokens_are_those_of_whole_passes(section: Gpt) -> None:
    network = network_of(section)
    found = TextGenerator(network, LETTERS, DecodingOptions(tokens=18, temperature=0)).generate(
        "abc"
    )
    tokens = LETTERS.encode("abc").astype("int64").tolist()
    for _ in range(18):
        logits = network(torch.tensor([tokens]))[0, -1]
        logits[0] = -torch.inf
        tokens.append(int(logits.argmax()))
    assert found.text == "".join(LETTERS.symbols[one - 1] for one in tokens[3:])


def test_greedy_texts_equal_transformers(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    theirs = write_decoder("llama", {**LLAMA, "vocab_size": 256}, tmp_path / "base")
    section = Gpt(kind="gpt", architecture=str(tmp_path / "base"), context=64)
    section = network_family(section).read_files(section, tmp_path)
    ours = network_family(section).build(section, TokenShape(256)).eval()
    assert isinstance(ours, GptNetwork)
    vocabulary = TextVocabulary("bytes")
    prompt = "a lamp in the rain"
    found = TextGenerator(ours, vocabulary, DecodingOptions(tokens=30, temperature=0)).generate(
        prompt
    )
    given = torch.from_numpy(vocabulary.encode(prompt).astype("int64"))[None]
    theirs.generation_config.eos_token_id = None
    wanted = theirs.generate(given, max_new_tokens=30, do_sample=False, pad_token_id=0)
    assert found.text == vocabulary.decode(wanted[0, given.shape[1] :].numpy().astype("uint16"))


def test_draws_follow_seed_and_row() -> None:
    network = network_of(SECTIONS[0])

    def texts(seed: int) -> list[str]:
        generator = TextGenerator(network, LETTERS, DecodingOptions(tokens=15, seed=seed))
        return [generator.generate("abc", row).text for row in range(4)]

    assert texts(3) == texts(3)
    assert len(set(texts(3))) == 4
    assert texts(3) != texts(4)
    alone = (
        TextGenerator(network, LETTERS, DecodingOptions(tokens=15, seed=3)).generate("abc", 2).text
    )
    assert alone == texts(3)[2]


@pytest.mark.extended
def test_draws_have_the_shares_of_the_model() -> None:
    network = network_of(SECTIONS[0])
    given = torch.from_numpy(LETTERS.encode("abc").astype("int64"))[None]
    logits = network(given)[0, -1].detach().double()
    logits[0] = -torch.inf
    shares = torch.softmax(logits / 0.7, dim=0)
    order = shares.argsort(descending=True).tolist()

    def drawn(decoding: DecodingOptions) -> torch.Tensor:
        generator = TextGenerator(network, LETTERS, decoding)
        texts = [generator.generate("abc", row).text for row in range(1500)]
        return torch.bincount(
            torch.tensor([1 + LETTERS.symbols.index(one) for one in texts]), minlength=LETTERS.size
        ) / len(texts)

    assert (drawn(DecodingOptions(tokens=1, temperature=0.7)) - shares).abs().max() < 0.05
    best = drawn(DecodingOptions(tokens=1, temperature=0.7, top_k=2))
    assert set(best.nonzero().flatten().tolist()) == set(order[:2])
    reach = float(shares[order[0]]) + 1e-4
    nucleus = drawn(DecodingOptions(tokens=1, temperature=0.7, top_p=reach))
    assert set(nucleus.nonzero().flatten().tolist()) == set(order[:2])
    only = drawn(DecodingOptions(tokens=1, temperature=0.7, top_p=reach - 1e-3))
    assert only[order[0]] == 1


def test_a_text_ends_before_a_stop_string_and_is_told_in_whole_pieces() -> None:
    network = network_of(SECTIONS[0])
    free = TextGenerator(network, LETTERS, DecodingOptions(tokens=20, temperature=0)).generate(
        "abc"
    )
    stop = free.text[7:10]
    first = free.text.find(stop)
    pieces: list[str] = []
    decoding = DecodingOptions(tokens=20, temperature=0, stop=(stop,))
    found = TextGenerator(network, LETTERS, decoding).generate("abc", tell=pieces.append)
    assert found.ended_by == "stop"
    assert found.text == free.text[:first] == "".join(pieces)
    assert free.ended_by == "limit"
    assert free.tokens == 20


def test_broken_characters_are_told_when_they_are_whole() -> None:
    network, vocabulary = network_of(SECTIONS[0], 256), TextVocabulary("bytes")
    pieces: list[str] = []
    generator = TextGenerator(network, vocabulary, DecodingOptions(tokens=40))
    found = generator.generate("ü", tell=pieces.append)
    assert "".join(pieces) == found.text


def test_windows_slide_beyond_the_context() -> None:
    network = network_of(SECTIONS[0])
    generator = TextGenerator(network, LETTERS, DecodingOptions(tokens=60))
    assert generator.generate("abc").tokens == 60
    long = generator.generate("abc" * 20)
    assert long.unread == 60 - 23
    assert long.tokens == 60


def test_what_a_prompt_lacks_is_told() -> None:
    generator = TextGenerator(network_of(SECTIONS[0]), LETTERS, DecodingOptions(tokens=3))
    assert generator.generate("aXYb").unknown == 2
    assert "�" not in generator.generate("aXYb").text
    with pytest.raises(Mistake, match="empty"):
        generator.generate("")
