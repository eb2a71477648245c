"""Bits per byte: against a count of the text itself, for each kind of vocabulary."""

from __future__ import annotations

import json

import numpy as np
import pytest

from trainwright.contract.sections.metric import Metric
from trainwright.data.base.levels import Levels
from trainwright.data.base.token_inputs import TokenInputs
from trainwright.data.encoders.text_tokenizer import changes_of
from trainwright.data.encoders.vocabulary import TextVocabulary, fit_characters
from trainwright.evaluation.intervals.bootstrap import Resampling
from trainwright.evaluation.intervals.resampled_metrics import MeasuredMetric, measure_lines
from trainwright.evaluation.metrics.metric_values import measure
from trainwright.evaluation.metrics.predictions import answers_of

pytest.importorskip("tokenizers")

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

TEXT = "Größe 7 — naïve 漢字!\n\tend of it. " * 9


def byte_level() -> str:
    from trainwright.data.encoders.bpe import train_pieces

    return train_pieces([TEXT], 300)


def llama_like() -> str:
    """A tokenizer with marked blanks and bytes for what its vocabulary lacks."""
    found = {f"<0x{number:02X}>": number + 1 for number in range(256)}
    vocab = {"<unk>": 0, **found, "\u2581": 257, "e": 258, "n": 259}
    tokenizer = Tokenizer(models.BPE(vocab, [], unk_token="<unk>", byte_fallback=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="never", split=False)
    tokenizer.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace()])
    return str(tokenizer.to_str())


@pytest.mark.parametrize(
    "vocabulary",
    [
        pytest.param(lambda: TextVocabulary("bytes"), id="bytes"),
        pytest.param(lambda: fit_characters(TEXT), id="characters"),
        pytest.param(lambda: TextVocabulary("subwords", byte_level()), id="bpe"),
        pytest.param(lambda: TextVocabulary("subwords", llama_like()), id="sentencepiece"),
    ],
)
def test_tokens_have_the_bytes_of_their_text(vocabulary) -> None:  # type: ignore[no-untyped-def]
    known = vocabulary()
    tokens = known.encode(TEXT)
    counts = known.byte_counts()
    assert len(counts) == known.size
    assert counts[tokens].sum() == len(TEXT.encode())
    assert known.losses() == ()


def test_marks_and_unknown_tokens_stand_for_no_text() -> None:
    known = fit_characters("ab\x1e")
    assert known.byte_counts().tolist() == [0, 0, 1, 1]
    assert TextVocabulary("bytes").byte_counts()[0x1E] == 0
    tokenizer = Tokenizer.from_str(byte_level())
    tokenizer.add_special_tokens(["<|end|>"])
    tokenizer.add_tokens(["plain"])
    marked = TextVocabulary("subwords", str(tokenizer.to_str()))
    counts = marked.byte_counts()
    assert counts[tokenizer.token_to_id("<|end|>")] == 0
    assert counts[tokenizer.token_to_id("plain")] == 5
    ends = marked.encode("ab\x1e")
    assert counts[ends].sum() == 2


def test_a_tokenizer_that_changes_the_text_is_told() -> None:
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFD(), normalizers.Lowercase()])
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    trainer = trainers.WordPieceTrainer(
        vocab_size=60, special_tokens=["[UNK]"], show_progress=False
    )
    tokenizer.train_from_iterator(["Ab abc abcd"], trainer)
    text = str(tokenizer.to_str())
    assert "NFD, Lowercase, Whitespace" in changes_of(text)
    known = TextVocabulary("subwords", text)
    (told,) = known.losses()
    assert "bits_per_byte counts the bytes that are left" in told
    # The blank is gone, and "##" is no text.
    assert known.byte_counts()[known.encode("Ab abc")].sum() == 5
    assert changes_of(byte_level()) == ""
    prefixed = json.loads(byte_level())
    prefixed["pre_tokenizer"]["add_prefix_space"] = True
    assert "ByteLevel" in changes_of(json.dumps(prefixed))


def test_segments_count_the_bytes_of_targets_alone() -> None:
    tokens = np.array([1, 2, 3, 1, 2, 3], dtype=np.uint16)
    mask = np.array([True, False, True, True, True, False])
    starts, lengths = np.array([1, 4]), np.array([3, 2])
    counts = np.array([0, 1, 10, 100])
    inputs = TokenInputs(tokens, starts, lengths, byte_counts=counts)
    assert inputs.levels.text_bytes.tolist() == [111, 110]
    masked = TokenInputs(tokens, starts, lengths, mask=mask, byte_counts=counts)
    assert masked.levels.text_bytes.tolist() == [101, 10]
    assert masked.take(np.array([1])).levels.text_bytes.tolist() == [10]
    assert len(TokenInputs(tokens, starts, lengths).levels.text_bytes) == 0


def test_bits_per_byte_is_a_ratio_of_sums_with_an_interval() -> None:
    draw = np.random.default_rng(0)
    nats, tokens = draw.gamma(3, 50, 400), np.full(400, 256.0)
    texts = draw.integers(300, 900, 400).astype(np.float64)
    answers = answers_of(tokens, nats[:, None], levels=Levels(text_bytes=texts))
    metric = Metric(name="bits_per_byte", resamples=200)
    by_hand = nats.sum() / np.log(2) / texts.sum()
    assert measure("bits_per_byte", answers, metric) == pytest.approx(by_hand, rel=1e-12)
    of_some = answers.take(np.arange(10))
    assert measure("bits_per_byte", of_some, metric) == pytest.approx(
        nats[:10].sum() / np.log(2) / texts[:10].sum()
    )
    draws = Resampling(np.arange(400), metric.resamples, 1)
    (found,) = measure_lines(
        [MeasuredMetric("bits_per_byte", answers, np.arange(400))], metric, draws
    )
    assert found.interval.low < by_hand < found.interval.high
    unknown = answers_of(tokens, nats[:, None])
    assert np.isnan(measure("bits_per_byte", unknown, metric))
