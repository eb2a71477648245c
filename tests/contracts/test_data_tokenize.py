"""`data tokenize`: a token file trains to the bits of its text."""

from __future__ import annotations

import json
import random
from pathlib import Path

import numpy as np
import pytest

from command import command, inside
from contract_runs import bits, train
from trainwright.core.errors import Mistake
from trainwright.core.files import hash_file
from trainwright.data.text.token_file import read_token_file

pytest.importorskip("torch")
pytest.importorskip("tokenizers")

from tokenizers import Tokenizer, models, pre_tokenizers

pytestmark = pytest.mark.torch

CONTRACT = """
name: notes
task: generation
data: {data}
model: {{kind: gpt, layers: 1, heads: 2, width: 8, context: 16, dropout: 0.1}}
training: {{num_steps: 3, batch_size: 8, early_stopping: off, optimizer: {{learning_rate: 0.01}}}}
metric: {{name: nats_per_token, resamples: 100}}
"""
SHARES = "validation: 0.15, test: 0.15"
MIXTURE = "sampling: {kind: mixture, temperature: 2.0"


def notes(seed: int = 4, count: int = 120) -> list[str]:
    draw = random.Random(seed)
    words = ["ab", "cab", "bäd", "fade", "deaf", "bead"]
    return [" ".join(draw.choices(words, k=draw.randint(3, 12))) for _ in range(count)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "notes.txt").write_text("\n\n".join(notes()))
    rows = [
        {"body": note, "corpus": "few" if at % 3 else "many"} for at, note in enumerate(notes())
    ]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    wide = {f"w{number}": number for number in range(70_000)}
    wide |= {word: 69_000 + at for at, word in enumerate(["ab", "cab", "bäd", "fade"])}
    tokenizer = Tokenizer(models.WordLevel(wide, unk_token="w1"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    (tmp_path / "wide.json").write_text(tokenizer.to_str())
    return tmp_path


@pytest.mark.extended
@pytest.mark.parametrize(
    ("text", "file"),
    [
        pytest.param(
            'path: notes.txt, separator: "\\n\\n", windows: packed', "windows: packed", id="packed"
        ),
        pytest.param("path: notes.txt, vocabulary: bpe, vocabulary_size: 300", "", id="bpe"),
        pytest.param(
            f"path: rows.jsonl, text: body, vocabulary: bytes, {MIXTURE}, column: corpus}}",
            f"{MIXTURE}}}",
            id="mixture",
        ),
        pytest.param(
            'path: notes.txt, separator: "\\n\\n", vocabulary: tokenizer, tokenizer: wide.json, '
            "windows: padded",
            "windows: padded",
            id="wide",
        ),
    ],
)
def test_a_token_file_trains_to_the_bits_of_its_text(folder: Path, text: str, file: str) -> None:
    of_text, of_file = folder / "text.yaml", folder / "file.yaml"
    of_text.write_text(CONTRACT.format(data=f"{{kind: tokens, {SHARES}, {text}}}"))
    with inside(folder):
        ran = command("data", "tokenize", "text.yaml", "-o", "notes.tokens", "--json")
    assert ran.code == 0, ran.err
    assert "characters, all of them" in ran.err
    data = ", ".join(filter(None, ["kind: tokens", SHARES, "path: notes.tokens", file]))
    of_file.write_text(CONTRACT.format(data=f"{{{data}}}"))
    one, other = train(of_text, "text"), train(of_file, "file")
    assert bits(one) == bits(other)
    assert one.signals["loss"] == other.signals["loss"]
    assert one.ready.prepared.features == other.ready.prepared.features
    for part in ("validation", "test"):
        mine, theirs = (getattr(run.ready.prepared, part).inputs for run in (one, other))
        assert np.array_equal(mine.starts, theirs.starts)
        assert np.array_equal(mine.lengths, theirs.lengths)
    manifest = json.loads(ran.out)
    assert manifest == json.loads((folder / "notes.tokens.json").read_text())
    assert manifest["sha256"] == hash_file(folder / "notes.tokens")
    assert manifest["tokens"] == len(read_token_file(folder / "notes.tokens").tokens)
    assert manifest["dtype"] == ("uint32" if "wide" in text else "uint16")
    assert not list(folder.glob(".tmp-*"))


def test_a_token_file_is_divided_as_it_was_written(folder: Path) -> None:
    contract = folder / "text.yaml"
    given = f"kind: tokens, {SHARES}, path: rows.jsonl, text: body, {MIXTURE}, column: corpus}}"
    contract.write_text(CONTRACT.format(data=f"{{{given}}}"))
    with inside(folder):
        assert command("data", "tokenize", "text.yaml", "-o", "notes.tokens").code == 0
        again = command("data", "tokenize", "text.yaml", "-o", "nowhere/notes.tokens")
        assert again.code == 2
    for data, said in (
        (f"{{kind: tokens, path: notes.tokens, {MIXTURE}}}}}", "another division of its text"),
        (f"{{kind: tokens, {SHARES}, path: notes.tokens}}", "has parts of its own"),
        (
            f"{{kind: tokens, {SHARES}, path: notes.tokens, "
            "sampling: {kind: mixture, weights: {none: 1.0}}}",
            "none",
        ),
    ):
        contract.write_text(CONTRACT.format(data=data))
        with pytest.raises(Mistake, match=said):
            train(contract, "other")
        assert not (folder / "runs").exists()


def test_what_is_no_text_is_refused(folder: Path) -> None:
    contract = folder / "text.yaml"
    contract.write_text(CONTRACT.format(data="{kind: tokens, path: notes.txt}"))
    with inside(folder):
        assert command("data", "tokenize", "text.yaml", "-o", "a.tokens").code == 0
        words = ("-o", "b.tokens", "--set", "data.path=a.tokens")
        ran = command("data", "tokenize", "text.yaml", *words)
        assert (ran.code, "a token file already" in ran.err) == (2, True)
        (folder / "rows.csv").write_text("x,y\n" + "\n".join(f"{at},{at % 2}" for at in range(40)))
        (folder / "rows.yaml").write_text(
            "name: rows\ndata: {path: rows.csv, target: y}\nmodel: {kind: linear}\n"
        )
        ran = command("data", "tokenize", "rows.yaml")
        assert (ran.code, "only a text is tokenized" in ran.err) == (2, True)
        assert not (folder / "b.tokens").exists()


def test_a_division_that_was_edited_is_refused(folder: Path) -> None:
    contract = folder / "text.yaml"
    contract.write_text(CONTRACT.format(data=f"{{kind: tokens, {SHARES}, path: notes.txt}}"))
    with inside(folder):
        assert command("data", "tokenize", "text.yaml", "-o", "a.tokens").code == 0
    whole = (folder / "a.tokens").read_bytes()
    at = whole.index(b'"sources": [["", 0, ') + len(b'"sources": [["", 0, ')
    (folder / "a.tokens").write_bytes(whole[:at] + b"9" + whole[at + 1 :])
    contract.write_text(CONTRACT.format(data=f"{{kind: tokens, {SHARES}, path: a.tokens}}"))
    with pytest.raises(Mistake, match="do not follow each other"):
        train(contract, "other")
