"""Decoders that learn from decoders: what the teacher says of each token, however texts are cut;
exact resume, kept once; teachers with other tokens or with test rows are refused."""

from __future__ import annotations

import io
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("tokenizers")

import torch

from command import command, inside, stopped_at, tree
from made_decoders import write_decoder_project
from trainwright.core.files import hash_file, read_json
from trainwright.data.base.token_inputs import TEACHER_LOGS, TEACHER_TOKENS
from trainwright.run.compose.compose_feed import build_feed
from trainwright.run.folder.check_own_files import read_own_bundle
from trainwright.run.prepare.prepare_run import Ready, make_ready
from trainwright.run.request import Request
from trainwright.run.screen import StageTimes, StreamScreen
from trainwright.run.teacher import token_teacher
from trainwright.tracking.run_folder import RunFolder

pytestmark = pytest.mark.torch

TEXT = """
name: text
task: generation
data: {kind: tokens, path: text.txt, vocabulary: bytes, separator: "\\n\\n"}
model: {kind: gpt, layers: 1, heads: 2, width: 32, context: 24}
training: {batch_size: 8, early_stopping: off, stop: {max_steps: 12},
           optimizer: {learning_rate: 0.01}, checkpointing: {save_every_n_steps: 1}}
metric: {name: perplexity, target: dummy, resamples: 100}
"""
STUDENT = "training.teacher={bundle: runs/teacher, weight: 0.7, temperature: 1.5, top_k: 5}"
CHATS = TEXT.replace(
    '{kind: tokens, path: text.txt, vocabulary: bytes, separator: "\\n\\n"}',
    "{kind: chats, path: chats.jsonl, template: plain, vocabulary: bytes, validation: 0.2, "
    "test: 0.2}",
).replace("context: 24", "context: 96")


def words(count: int, seed: int) -> str:
    said = ["the tide", "a lamp", "was low", "and", "the boats", "came home", "in rain.", "dusk"]
    return " ".join(random.Random(seed).choices(said, k=count))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with inside(tmp_path_factory.mktemp("tokens")) as made:
        Path("text.txt").write_text("\n\n".join(words(12, at) for at in range(70)))
        rows = [
            [
                {"role": "user", "content": f"{at}? {words(2, at)}"},
                {"role": "assistant", "content": words(5, at)},
            ]
            for at in range(40)
        ]
        lines = [json.dumps({"messages": one}) + "\n" for one in rows]
        Path("chats.jsonl").write_text("".join(lines))
        for name, text, run in (("text", TEXT, "teacher"), ("chats", CHATS, "answerer")):
            Path(f"{name}.yaml").write_text(text)
            ran = command("train", f"{name}.yaml", "--run", run)
            assert ran.code in (0, 3), ran.err
        yield made


def weights(run: str) -> list[str]:
    """Hashes of the last checkpoint and of the model of a run."""
    kept = sorted(Path("runs", run, "checkpoints").iterdir())[-1]
    files = [*kept.glob("*.safetensors"), Path("runs", run, "bundle/network.safetensors")]
    return [hash_file(file) for file in files]


def ready_of(contract: str, *overrides: str) -> Ready:
    return make_ready(Request(Path(contract), overrides), StageTimes(), StreamScreen(io.StringIO()))


WAYS = {
    "across": ("text.yaml", (STUDENT,)),
    "packed": ("text.yaml", (STUDENT, "data.windows=packed")),
    "padded": ("text.yaml", (STUDENT, "data.windows=padded")),
    "chats": ("chats.yaml", (STUDENT.replace("runs/teacher", "runs/answerer"),)),
}


@pytest.mark.extended
@pytest.mark.parametrize("way", WAYS)
def test_each_target_stands_beside_what_the_teacher_says(folder: Path, way: str) -> None:
    """Of the likeliest tokens after the same document, by the teacher alone, at the temperature."""
    ready = ready_of(WAYS[way][0], *WAYS[way][1])
    contract, inputs = ready.plan.contract, ready.prepared.train.inputs
    run = "answerer" if way == "chats" else "teacher"
    scorer = read_own_bundle(RunFolder.open(folder / "runs" / run)).scorer
    network, context = scorer.network, scorer.context
    feed = build_feed(contract, ready.prepared, torch.device("cpu"))
    batch = feed.next_step().micro_batches[0]
    tokens, logs = batch[TEACHER_TOKENS], batch[TEACHER_LOGS]
    counted = torch.ones_like(batch["target"], dtype=torch.bool)
    if not isinstance(batch.mask, str):
        counted = batch.mask.tensor
    assert tokens.shape == (*batch["target"].shape, 5)
    assert logs.shape == (*batch["target"].shape, 6)
    sums = logs.exp().sum(-1)[counted]
    assert torch.allclose(sums, torch.ones_like(sums), atol=1e-5)
    soft, checked = inputs.soft, 0
    starts = inputs.starts
    for position in soft.positions[:: max(1, len(soft.positions) // 25)].tolist():
        at = int(np.searchsorted(starts, position, side="right")) - 1
        begin = int(inputs.documents[inputs.owners()[at]])
        # As an evaluation cuts a segment: in pieces of the context, each with what came before.
        piece = starts[at] + (position - starts[at]) // context * context
        end = min(piece + context, starts[at] + inputs.lengths[at])
        opened = max(begin, int(end) - 1 - context)
        seen = torch.from_numpy(inputs.tokens[opened:position].astype(np.int64))[None]
        log_p = torch.log_softmax(network(seen)[0, -1].double() / 1.5, dim=-1)
        best, which = log_p.topk(5)
        row = int(np.searchsorted(soft.positions, position))
        found = torch.from_numpy(np.array(soft.log_probabilities[row]))
        assert torch.allclose(found[:5].double(), best, atol=1e-5)
        assert set(soft.tokens[row].tolist()) == set(which.tolist())
        assert float(found[5].exp()) == pytest.approx(1 - float(best.exp().sum()), abs=1e-5)
        checked += 1
    assert checked > 10
    # What is fed at a target is what is kept of its position.
    places = {tuple(one) for one in np.asarray(soft.tokens).tolist()}
    assert all(tuple(one) in places for one in tokens[counted].tolist())


def test_a_run_that_was_cut_ends_in_the_same_bits(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = ("--set", STUDENT, "--set", "data.windows=packed", "--set", "model.dropout=0.1")
    assert command("train", "text.yaml", "--run", "whole", *given).code in (0, 3)
    at = random.Random(7).randint(2, 11)
    assert stopped_at(at, "train", "text.yaml", "--run", "cut", *given).code == 75

    def computed(*_: Any) -> None:
        raise AssertionError("what the teacher says is kept")

    monkeypatch.setattr(token_teacher, "write_predicted", computed)
    assert command("train", "text.yaml", "--run", "cut", *given, "--resume").code in (0, 3)
    assert weights("whole") == weights("cut")
    described = read_json(RunFolder.open(Path("runs/whole")).data / "manifest.json")["teacher"]
    assert described["path"] == "runs/teacher"
    assert described["note"] == ""


@pytest.mark.extended
def test_another_weight_trains_another_model(folder: Path) -> None:
    for name, teacher in (("light", STUDENT.replace("0.7", "0.1")), ("heavy", STUDENT)):
        settings = (teacher, "data.windows=packed", "model.dropout=0.1")
        given = [word for one in settings for word in ("--set", one)]
        assert command("train", "text.yaml", "--run", name, *given).code in (0, 3)
    assert weights("light") != weights("heavy")


def refused(contract: str, *overrides: str) -> str:
    before = tree(Path("runs"))
    given = [word for one in overrides for word in ("--set", one)]
    ran = command("train", contract, *given)
    assert ran.code == 2, ran.err
    assert tree(Path("runs")) == before
    return ran.err


def test_a_teacher_with_other_tokens_is_refused(folder: Path) -> None:
    said = refused("text.yaml", STUDENT, "data.vocabulary=characters")
    assert "the tokens of the teacher are others" in said
    assert "256 bytes" in said


def test_a_teacher_that_was_trained_on_test_rows_is_refused(folder: Path) -> None:
    said = refused("text.yaml", STUDENT, "data.test=0.4")
    assert "the teacher was trained on test rows" in said
    said = refused("chats.yaml", STUDENT.replace("runs/teacher", "runs/answerer"), "data.test=0.5")
    assert "the teacher was trained on test rows" in said


def test_smaller_parts_of_the_same_split_are_no_leak(folder: Path) -> None:
    """The test part lies within that of the teacher's split."""
    ready = ready_of("text.yaml", STUDENT, "data.test=0.03")
    assert ready.teacher["note"] == ""


def test_a_teacher_whose_text_is_gone_is_doubted(folder: Path) -> None:
    ready = ready_of("text.yaml", STUDENT.replace("runs/teacher", "runs/teacher/bundle"))
    assert "is not known" in ready.teacher["note"]


def test_a_model_of_another_kind_is_no_teacher(folder: Path) -> None:
    Path("rows.csv").write_text("x,y\n" + "".join(f"{n},{n % 2}\n" for n in range(80)))
    Path("rows.yaml").write_text("data: {path: rows.csv, target: y}\nmodel: {kind: linear}\n")
    assert command("train", "rows.yaml", "--run", "rows").code in (0, 3)
    said = refused("text.yaml", STUDENT.replace("runs/teacher", "runs/rows"))
    assert "the teacher predicts no tokens" in said


@pytest.mark.extended
def test_a_folder_of_hugging_face_teaches(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    contract = write_decoder_project(tmp_path)
    student = "{kind: gpt, layers: 1, heads: 2, width: 24, context: 32}"
    contract.write_text(
        contract.read_text().replace("{kind: gpt, architecture: base, context: 32}", student)
    )
    with inside(tmp_path):
        ready = ready_of("tale.yaml", "training.teacher={bundle: base, top_k: all}")
        assert "Hugging Face" in ready.teacher["note"]
        soft = ready.prepared.train.inputs.soft
        assert soft.tokens.shape[1] == ready.prepared.features.vocabulary.size < 288
        import transformers

        theirs = transformers.AutoModelForCausalLM.from_pretrained("base").eval()
        text = ready.prepared.train.inputs.tokens
        seen = torch.from_numpy(text[:21].astype(np.int64))[None]
        with torch.no_grad():
            logits = theirs(seen).logits[0, -1, : soft.tokens.shape[1]]
        log_p = torch.log_softmax(logits, dim=-1)
        row = int(np.searchsorted(soft.positions, 21))
        mine = torch.from_numpy(np.array(soft.log_probabilities[row][:-1]))
        which = torch.from_numpy(soft.tokens[row].astype(np.int64))
        assert torch.allclose(mine, log_p[which], atol=1e-4)
        ran = command("train", "tale.yaml", "--set", "training.teacher={bundle: base}")
        assert ran.code in (0, 3), ran.err


def test_a_loss_that_makes_no_logits_has_no_teacher(folder: Path) -> None:
    said = refused("text.yaml", STUDENT, "training.memory.head_loss=fused")
    assert "head_loss: fused does not go with it" in said
    assert "a teacher" in said
