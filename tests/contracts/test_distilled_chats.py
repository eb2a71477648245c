"""`data distil`: training answers by a teacher, and no other row changed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("tokenizers")

from command import command, inside, tree
from trainwright.contract.reading.read_contract import read_contract
from trainwright.contract.sections.data.chats import ChatData
from trainwright.core.files import hash_file
from trainwright.data.chats.prepare_chats import RawChats, read_raw_chats
from trainwright.predictor.text_generation import Continuation, TextGenerator

pytestmark = pytest.mark.torch

CONTRACT = """
name: chats
task: generation
data: {kind: chats, path: chats.jsonl, template: plain, vocabulary: bytes, validation: 0.2,
       test: 0.2}
model: {kind: gpt, layers: 1, heads: 2, width: 32, context: 128}
training: {batch_size: 8, early_stopping: off, stop: {max_steps: 4}}
metric: {name: perplexity, target: dummy, resamples: 100}
"""


def said(*contents: str) -> list[dict[str, str]]:
    roles = ("user", "assistant") * len(contents)
    return [{"role": role, "content": one} for role, one in zip(roles, contents, strict=False)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with inside(tmp_path_factory.mktemp("distilled")) as made:
        rows = [
            {
                "messages": said(f"{at}?", f"first {at}", "more?", f"last {at}")
                if at % 3 == 0
                else said(f"{at}?", f"given {at}"),
                "topic": f"t{at % 4}",
            }
            for at in range(40)
        ]
        Path("chats.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        Path("chats.yaml").write_text(CONTRACT)
        assert command("train", "chats.yaml", "--run", "teacher").code in (0, 3)
        yield made


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> dict[int, str]:
    """Prompts by row; every fifth answer does not end."""
    prompts: dict[int, str] = {}

    def answer(self: TextGenerator, prompt: Sequence[str], row: int = 0) -> Continuation:
        assert self._decoding.temperature == 0
        prompts[row] = "".join(prompt)
        return Continuation(f" by the teacher {row} ", 5, "limit" if row % 5 == 0 else "stop")

    monkeypatch.setattr(TextGenerator, "generate", answer)
    return prompts


def chats_of(path: str) -> RawChats:
    document = read_contract(Path("chats.yaml"), (f"data.path={path}",))
    return read_raw_chats(ChatData.of(document.contract.data), Path())


def test_only_last_answers_of_training_chats_are_the_teachers(
    folder: Path, asked: dict[int, str]
) -> None:
    ran = command("data", "distil", "teacher", "chats.yaml", "-o", "taught.jsonl", "--json")
    assert ran.code == 0, ran.err
    before = [json.loads(line) for line in Path("chats.jsonl").read_text().splitlines()]
    after = [json.loads(line) for line in Path("taught.jsonl").read_text().splitlines()]
    parts = chats_of("chats.jsonl").groups.parts
    training = np.flatnonzero(parts == 0).tolist()
    assert sorted(asked) == training
    answered = [row for row in training if row % 5]
    counts = json.loads(ran.out)
    assert (counts["chats"], counts["training"], counts["answered"]) == (
        40,
        len(training),
        len(answered),
    )
    assert counts["note"] == ""
    sha256 = hash_file(Path("runs/teacher/bundle/bundle.json"))
    for row, (one, other) in enumerate(zip(before, after, strict=True)):
        assert other["topic"] == one["topic"]
        assert other["messages"][:-1] == one["messages"][:-1]
        taken = row in answered
        last = f"by the teacher {row}" if taken else one["messages"][-1]["content"]
        assert other["messages"][-1] == {"role": "assistant", "content": last}
        assert other["answered_by"] == (sha256 if taken else "")
    assert asked[training[0]].endswith("### assistant\n")


def test_the_parts_stay_what_they_were(folder: Path, asked: dict[int, str]) -> None:
    """So the student is judged by the answers that were given."""
    assert command("data", "distil", "teacher", "chats.yaml", "-o", "again.jsonl").code == 0
    one, other = chats_of("chats.jsonl"), chats_of("again.jsonl")
    assert one.groups.parts.tolist() == other.groups.parts.tolist()
    ran = command(
        "train",
        "chats.yaml",
        "--run",
        "student",
        "--set",
        "data.path=again.jsonl",
        "--set",
        "slices=[{column: answered_by}]",
    )
    assert ran.code in (0, 3), ran.err
    prepared = json.loads(Path("runs/student/evaluation.json").read_text())
    assert [one["name"] for one in prepared["evaluation"]["slices"]] == ["answered_by="]


def refused(*words: str) -> str:
    before = tree(Path())
    ran = command("data", "distil", *words)
    assert ran.code == 2, ran.out
    assert tree(Path()) == before
    return ran.err


def test_what_cannot_be_distilled_is_refused(folder: Path, asked: dict[int, Any]) -> None:
    assert "trained on test rows" in refused("teacher", "chats.yaml", "--set", "data.test=0.5")
    assert ".jsonl" in refused("teacher", "chats.yaml", "-o", "taught.csv")
    Path("text.yaml").write_text(
        "data: {kind: tokens, path: chats.jsonl, text: topic}\nmodel: {kind: gpt, context: 8}\n"
    )
    assert "only the answers of chats" in refused("teacher", "text.yaml")
