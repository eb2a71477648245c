"""Word pieces: learned from the training part alone, and the same as the library's own."""

from __future__ import annotations

import json
import threading
from itertools import pairwise
from pathlib import Path
from unittest import mock

import numpy as np
import pytest

tokenizers = pytest.importorskip("tokenizers")

from made_data import make_text  # noqa: E402
from trainwright.contract.sections.data.tokens import TokenData  # noqa: E402
from trainwright.core import limits  # noqa: E402
from trainwright.core.errors import DataMistake  # noqa: E402
from trainwright.data.base.token_inputs import TokenInputs  # noqa: E402
from trainwright.data.encoders import bpe  # noqa: E402
from trainwright.data.encoders.bpe import train_pieces  # noqa: E402
from trainwright.data.encoders.vocabulary import TextVocabulary  # noqa: E402
from trainwright.data.text.prepare_text import prepare_tokens, read_tokens, text_part  # noqa: E402
from trainwright.data.types import Prepared, encoding_from_json  # noqa: E402

STRANGE = "Größe, 東京 and 🎉\n\n\tbar\x00 anna anna bobcarla"


def prepared(folder: Path, **more: object) -> Prepared:
    section = TokenData(kind="tokens", path="t.txt", **more)  # type: ignore[arg-type]
    return prepare_tokens(read_tokens(section, folder), section)


def test_any_text_comes_back_and_json_keeps_the_vocabulary(tmp_path: Path) -> None:
    text = make_text(tmp_path / "t.txt").read_text()
    vocabulary = TextVocabulary("subwords", train_pieces([text], 300))
    assert 256 < vocabulary.size <= 300
    assert vocabulary.decode(vocabulary.encode(STRANGE)) == STRANGE
    assert len(vocabulary.encode(text)) < len(text) / 2
    again = encoding_from_json(vocabulary.to_json())
    assert again == vocabulary


def test_learning_is_that_of_the_library_and_repeats(tmp_path: Path) -> None:
    text = make_text(tmp_path / "t.txt").read_text() + STRANGE
    reference = tokenizers.ByteLevelBPETokenizer()
    reference.train_from_iterator([text], vocab_size=290, min_frequency=0, show_progress=False)
    made = train_pieces([text], 290)
    assert made == train_pieces([text], 290)
    vocabulary = TextVocabulary("subwords", made)
    assert vocabulary.encode(STRANGE).tolist() == reference.encode(STRANGE).ids


def test_the_vocabulary_is_that_of_the_training_part(tmp_path: Path) -> None:
    file = make_text(tmp_path / "t.txt")
    text = file.read_text()
    clean = prepared(tmp_path, vocabulary="bpe", vocabulary_size=280)
    end = len(text) - 2 * round(len(text) * 0.05)
    file.write_text(
        text[:end] + "zebra " * ((len(text) - end) // 6) + " " * ((len(text) - end) % 6)
    )
    dirty = prepared(tmp_path, vocabulary="bpe", vocabulary_size=280)
    assert clean.features == dirty.features
    assert (clean.train.target == dirty.train.target).all()
    assert clean.version != dirty.version


def test_a_tokenizer_of_a_file_is_used_as_it_is_but_cuts_nothing(tmp_path: Path) -> None:
    text = make_text(tmp_path / "t.txt").read_text()
    pretrained = tokenizers.Tokenizer.from_str(train_pieces([text[:500]], 270))
    expected = [pretrained.encode(part).ids for part in _parts(text)]
    pretrained.enable_truncation(max_length=7)
    pretrained.enable_padding(length=9)
    pretrained.save(str(tmp_path / "tokenizer.json"))
    found = prepared(tmp_path, vocabulary="tokenizer", tokenizer="tokenizer.json")
    tokens = np.asarray(found.train.inputs.tokens)  # type: ignore[union-attr]
    assert tokens.tolist() == [token for part in expected for token in part]


def _parts(text: str) -> list[str]:
    share = round(len(text) * 0.05)
    ends = [0, len(text) - 2 * share, len(text) - share, len(text)]
    return [text[a:b] for a, b in pairwise(ends)]


def test_a_text_that_is_judged_has_the_tokens_it_was_trained_on(tmp_path: Path) -> None:
    text = "--".join(f"((one fish {at}, two fish" for at in range(200))
    (tmp_path / "t.txt").write_text(text)
    section = TokenData(
        kind="tokens", path="t.txt", vocabulary="bpe", vocabulary_size=300, separator="--"
    )
    raw = read_tokens(section, tmp_path)
    judged = text_part(text, raw.text.vocabulary, section).inputs
    assert isinstance(judged, TokenInputs)
    assert judged.tokens.tolist() == raw.text.tokens.tolist()


@pytest.mark.parametrize(
    ("content", "found"),
    [("", "no such tokenizer"), ("{}", "cannot be read"), ("no json", "cannot be read")],
)
def test_a_broken_tokenizer_is_refused(tmp_path: Path, content: str, found: str) -> None:
    make_text(tmp_path / "t.txt")
    if content:
        (tmp_path / "tokenizer.json").write_text(content)
    with pytest.raises(DataMistake, match=found):
        prepared(tmp_path, vocabulary="tokenizer", tokenizer="tokenizer.json")


def test_more_tokens_than_16_bits_tell_apart(tmp_path: Path) -> None:
    words = {f"w{at}": at for at in range(70_000)}
    model = tokenizers.models.WordLevel(words, unk_token="w0")
    tokenizer = tokenizers.Tokenizer(model)
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    numbers = np.random.default_rng(0).integers(0, 70_000, 9000)
    (tmp_path / "t.txt").write_text(" ".join(f"w{number}" for number in numbers))
    part = prepared(tmp_path, vocabulary="tokenizer", tokenizer="tokenizer.json").train
    assert isinstance(part.inputs, TokenInputs)
    tokens = part.inputs.tokens
    assert tokens.dtype == np.uint32
    assert tokens.max() > 65_535
    # At the end of a part a word may be cut.
    np.testing.assert_array_equal(tokens[:6000], numbers[:6000])


def write_words(folder: Path, words: dict[str, int], *rules: dict[str, object]) -> None:
    """A text, and a tokenizer of words behind these rules."""
    make_text(folder / "t.txt")
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="anna"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    content = json.loads(tokenizer.to_str())
    if rules:
        content["normalizer"] = {"type": "Sequence", "normalizers": rules}
    (folder / "tokenizer.json").write_text(json.dumps(content))


NAMES = {"anna": 0, "bob": 1, "carla": 2}
DOUBLE = {"type": "Replace", "pattern": {"String": "a"}, "content": "aa"}


@pytest.mark.row("F-63")
@pytest.mark.parametrize(
    ("limit", "value", "words", "says"),
    [
        ("core.limits.MOST_TOKENIZER_BYTES", 100, NAMES, "larger than any that is used"),
        ("core.limits.MOST_TOKENIZER_GROWTH", 3, NAMES, "larger than any that is used"),
        ("data.encoders.bpe.MOST_TOKENS", 2, NAMES, "too many tokens"),
        ("data.encoders.bpe.MOST_TOKENS", 3, {**NAMES, "carla": 3}, "too many tokens"),
    ],
    ids=["bytes", "growth", "tokens", "numbers"],
)
def test_a_tokenizer_is_refused_at_a_lower_limit_and_read_at_the_usual_one(
    limit: str,
    value: int,
    words: dict[str, int],
    says: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Rules that lengthen a text are multiplied: here by four."""
    write_words(tmp_path, words, DOUBLE, DOUBLE)
    named = {"vocabulary": "tokenizer", "tokenizer": "tokenizer.json"}
    with monkeypatch.context() as patch:
        patch.setattr(f"trainwright.{limit}", value)
        with pytest.raises(DataMistake, match=says):
            prepared(tmp_path, **named)
    assert prepared(tmp_path, **named).train.rows.size


@pytest.mark.row("F-63")
def test_a_tokenizer_that_takes_too_long_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its patterns are its own, and may need time without end."""
    write_words(tmp_path, NAMES)
    made, held = bpe._tokenizer, threading.Event()

    def slow(text: str) -> object:
        return mock.Mock(wraps=made(text), encode_batch=lambda *_, **__: held.wait())

    monkeypatch.setattr(bpe, "_tokenizer", slow)
    monkeypatch.setattr(limits, "TOKENIZER_SECONDS", 0.0)
    monkeypatch.setattr(limits, "TOKENIZER_LETTERS_PER_SECOND", 10**9)
    with pytest.raises(DataMistake, match="does not come to an end"):
        prepared(tmp_path, vocabulary="tokenizer", tokenizer="tokenizer.json")
    held.set()
