"""Preferences in whole runs: margins by hand, what the base says, exact resume, the same updates
however a step is divided, pairs that are refused."""

from __future__ import annotations

import io
import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("tokenizers")
pytest.importorskip("transformers")

import torch

from canary import Killed
from command import command, inside, tree
from contract_runs import Run, bits, train
from faults.tiers import also_slow
from made_decoders import write_decoder_project
from trainwright.contract.sections.training.objective import Dpo
from trainwright.core.errors import Mistake
from trainwright.data.chats.chat_encoding import PreferenceEncoding
from trainwright.model.families import network_family
from trainwright.model.input_shape import shape_of
from trainwright.planner.kinds.data_planner import planner_of
from trainwright.predictor.network_scorer import NetworkScorer
from trainwright.run.folder.check_own_files import read_own_bundle
from trainwright.run.prepare.prepare_run import Ready, make_ready
from trainwright.run.request import Request
from trainwright.run.screen import StageTimes, StreamScreen
from trainwright.run.teacher import reference_scores
from trainwright.tracking.run_folder import RunFolder

pytestmark = pytest.mark.torch

CONTRACT = """
name: preferred
task: generation
data: {kind: preferences, path: pairs.jsonl, template: plain, tokenizer: base/tokenizer.json,
       validation: 0.15, test: 0.2}
model: {kind: gpt, architecture: base, context: 96, rotary_scaling: {kind: linear, factor: 2}}
training: {num_epochs: 2, batch_size: 4, gradient_accumulation_steps: 2, early_stopping: off,
           optimizer: {learning_rate: 0.001}, checkpointing: {save_every_n_steps: 1}}
metric: {name: preference_accuracy, target: dummy, resamples: 200}
slices: [{column: source}]
"""
STEPS = 6


def pair_rows() -> list[dict[str, Any]]:
    draw = np.random.default_rng(5)
    rows = []
    for number in range(48):
        words = draw.choice(["tide", "lamp", "rain", "boat"], 4).tolist()
        chosen, rejected = " ".join(words[: 1 + number % 3]), " ".join([*words, "and", "so on"])
        rows.append(
            {"prompt": f"Say {number}.", "chosen": chosen, "rejected": rejected, "source": "a"}
        )
    asked = [{"role": "user", "content": "Say more."}, {"role": "assistant", "content": "the"}]
    rows[0]["prompt"] = [*asked, {"role": "user", "content": "And?"}]
    rows[1] = {
        "chosen": [asked[0], {"role": "assistant", "content": "at dusk"}],
        "rejected": [asked[0], {"role": "assistant", "content": "no, not now"}],
        "prompt": None,
        "source": "b",
    }
    return rows


def write_rows(folder: Path, rows: list[dict[str, Any]]) -> None:
    (folder / "pairs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.fixture
def contract(tmp_path: Path) -> Path:
    write_decoder_project(tmp_path)
    write_rows(tmp_path, pair_rows())
    (tmp_path / "contract.yaml").write_text(CONTRACT)
    return tmp_path / "contract.yaml"


def ready_for(contract: Path, *overrides: str) -> Ready:
    return make_ready(Request(contract, overrides), StageTimes(), StreamScreen(io.StringIO()))


def weights_of(run: Run) -> dict[str, torch.Tensor]:
    return dict(run.job.state["model"].snapshot().tensors)


def answer_log_probability(
    network: torch.nn.Module, encoding: PreferenceEncoding, messages: list[dict[str, str]]
) -> tuple[float, int]:
    """log p of the last message, token by token, and its tokens."""
    words = encoding.vocabulary
    pieces: list[str] = []
    for at, one in enumerate(messages):
        pieces += [("\n\n" if at else "") + f"### {one['role']}\n", one["content"] + "\x1e"]
    encoded = [words.encode(piece).tolist() for piece in pieces]
    tokens = [token for piece in encoded for token in piece]
    logs = torch.log_softmax(network(torch.tensor([tokens]))[0].double(), dim=1)
    first = len(tokens) - len(encoded[-1])
    return sum(float(logs[at - 1, tokens[at]]) for at in range(first, len(tokens))), len(
        encoded[-1]
    )


def messages_of(row: dict[str, Any], side: str) -> list[dict[str, str]]:
    prompt = row["prompt"]
    asked = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt or []
    answer = row[side]
    return [*asked, {"role": "assistant", "content": answer}] if isinstance(answer, str) else answer


@pytest.mark.extended
@pytest.mark.parametrize(
    ("form", "normalised"), [("sigmoid", False), ("ipo", False), ("sigmoid", True)]
)
def test_margins_and_losses_are_those_of_a_loop_by_hand(
    contract: Path, form: str, normalised: bool
) -> None:
    loss = f"training.loss={{name: dpo, beta: 0.3, form: {form}, length_normalised: {normalised}}}"
    with inside(contract.parent):
        ran = command("train", "contract.yaml", "--run", "done", "--set", loss.lower())
    assert ran.code in (0, 3), ran.err
    folder = RunFolder(contract.parent / "runs" / "done")
    predictor = read_own_bundle(folder)
    assert isinstance(predictor.scorer, NetworkScorer)
    ready = ready_for(contract, loss.lower())
    base = network_family(ready.plan.contract.model).build(
        ready.plan.contract.model, shape_of(ready.prepared)
    )
    base.eval()
    encoding, rows = PreferenceEncoding.of_kind(predictor.features), pair_rows()
    margins = []
    with torch.no_grad():
        for row in ready.prepared.test.rows.tolist():
            reward = {}
            for side in ("chosen", "rejected"):
                said = messages_of(rows[row], side)
                ours, tokens = answer_log_probability(predictor.scorer.network, encoding, said)
                theirs, _ = answer_log_probability(base, encoding, said)
                reward[side] = 0.3 * (ours - theirs) / (tokens if normalised else 1)
            margins.append(reward["chosen"] - reward["rejected"])
    found = predictor.scorer.score(ready.prepared.test.inputs)[:, 0]
    np.testing.assert_allclose(found, margins, rtol=1e-3, atol=1e-4)
    judged = json.loads((folder.path / "evaluation.json").read_text())["evaluation"]
    accuracy, margin = judged["metrics"]["preference_accuracy"], judged["metrics"]["reward_margin"]
    assert accuracy["value"] == pytest.approx(np.mean(np.array(margins) > 0))
    assert margin["value"] == pytest.approx(np.mean(margins), rel=1e-3, abs=1e-4)
    assert margin["low"] <= margin["value"] <= margin["high"]
    assert accuracy["low"] < accuracy["high"]
    dummy = judged["baselines"]["dummy"]["preference_accuracy"]
    assert dummy["low"] == dummy["high"] == 0.5
    longer = [
        len(encoding.vocabulary.encode(messages_of(rows[row], "chosen")[-1]["content"]))
        > len(encoding.vocabulary.encode(messages_of(rows[row], "rejected")[-1]["content"]))
        for row in ready.prepared.test.rows.tolist()
    ]
    linear = judged["baselines"]["linear"]["preference_accuracy"]["value"]
    assert linear == pytest.approx(np.mean(longer), abs=0.1)


def test_the_first_step_has_the_loss_of_no_margin(contract: Path) -> None:
    run = train(contract, "one", "training.stop.max_steps=1")
    assert run.signals["loss"][0] == pytest.approx(math.log(2), rel=1e-4)
    beta = "training.loss={name: dpo, beta: 0.1, form: ipo}"
    run = train(contract, "ipo", beta, "training.stop.max_steps=1")
    assert run.signals["loss"][0] == pytest.approx(25.0, rel=1e-3)


@pytest.mark.parametrize(
    "deaths", also_slow([[1, 4]], [list(range(1, STEPS))]), ids=["some", "every"]
)
def test_a_run_goes_on_to_the_same_bits(contract: Path, deaths: list[int]) -> None:
    short = f"training.stop.max_steps={STEPS}"
    wanted = train(contract, "whole", short)
    for death in deaths:
        with pytest.raises(Killed):
            train(contract, f"cut-{death}", short, dies_at=death)
        again = train(contract, f"cut-{death}", short)
        assert bits(again) == bits(wanted)
        assert again.signals["loss"] == wanted.signals["loss"]


def test_a_step_is_the_same_however_it_is_divided(contract: Path) -> None:
    runs = [
        train(
            contract,
            f"{rows}x{parts}",
            "training.stop.max_steps=3",
            f"training.batch_size={rows}",
            f"training.gradient_accumulation_steps={parts}",
        )
        for rows, parts in ((8, 1), (2, 4))
    ]
    assert runs[0].signals["loss"] == pytest.approx(runs[1].signals["loss"], rel=1e-5)
    for name, tensor in weights_of(runs[0]).items():
        torch.testing.assert_close(tensor, weights_of(runs[1])[name], rtol=1e-3, atol=1e-5)


def test_the_base_is_asked_once(contract: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    score = reference_scores._by_base

    def counted(*given: Any) -> Any:
        asked.append(1)
        return score(*given)

    monkeypatch.setattr(reference_scores, "_by_base", counted)
    kept = "data.reading.cache=cache"
    first = ready_for(contract, kept).prepared
    again = ready_for(contract, kept, "training.loss={name: dpo, beta: 0.5}").prepared
    assert len(asked) == 1
    assert first.train.inputs.reference.tolist() == again.train.inputs.reference.tolist()  # type: ignore[attr-defined]
    np.testing.assert_allclose(again.train.inputs.scale, 5 * first.train.inputs.scale)  # type: ignore[attr-defined]
    assert first.version != again.version
    ready_for(contract, kept, "data.template=chatml", "data.long_documents=exclude")
    assert len(asked) == 2
    rows = pair_rows()
    rows[5]["chosen"] = "another"
    write_rows(contract.parent, rows)
    ready_for(contract, kept)
    assert len(asked) == 3


def test_the_plan_counts_both_answers_of_a_pair(contract: Path) -> None:
    of_pairs = ready_for(contract).plan.memory
    words = "vocabulary: tokenizer, tokenizer: base/tokenizer.json"
    tokens = f"data={{kind: tokens, path: text.txt, {words}}}"
    of_text = ready_for(contract, tokens, "metric.name=perplexity", "slices=[]").plan.memory
    assert of_pairs.activations == 2 * of_text.activations > 0


def test_another_tokenizer_than_that_of_the_base_is_refused(contract: Path) -> None:
    """By keys that preferences have."""
    file = contract.parent / "base" / "tokenizer.json"
    other = contract.parent / "other.json"
    other.write_text(json.dumps(json.loads(file.read_text()), indent=3))
    with pytest.raises(Mistake, match="need its own tokenizer") as refused:
        ready_for(contract, "data.tokenizer=other.json")
    (problem,) = refused.value.problems
    assert problem.path == "data.tokenizer"
    assert problem.fix == "write data.tokenizer: base/tokenizer.json"


def test_pairs_that_are_longer_than_the_window(contract: Path) -> None:
    rows = pair_rows()
    rows[3]["rejected"] = "tide " * 90
    write_rows(contract.parent, rows)
    with pytest.raises(Mistake, match="1 pair is longer than the window") as refused:
        ready_for(contract)
    (needed,) = re.findall(r"raise it to (\d+)", refused.value.problems[0].fix)
    scaling = "{kind: linear, factor: 8}"
    wide = ready_for(contract, f"model.context={needed}", f"model.rotary_scaling={scaling}")
    assert len(wide.prepared.train) + len(wide.prepared.validation) + len(wide.prepared.test) == 48
    ready = ready_for(contract, "data.long_documents=exclude")
    (finding,) = planner_of(ready.plan.contract, ready.raw.facts).findings()
    assert "1 pair is longer than model.context 96 and excluded" in finding.message
    parts = (ready.prepared.train, ready.prepared.validation, ready.prepared.test)
    kept = sorted(row for part in parts for row in part.rows.tolist())
    assert kept == [row for row in range(48) if row != 3]
    assert ready.plan.estimate.train_rows == len(ready.prepared.train)
    run = train(contract, "excluded", "data.long_documents=exclude", "training.stop.max_steps=1")
    assert run.signals["loss"][0] == pytest.approx(math.log(2), rel=1e-4)


def contradictions(contract: Path, *pairs: tuple[str, str, str]) -> list[str]:
    rows = [dict(zip(("prompt", "chosen", "rejected"), pair, strict=True)) for pair in pairs]
    write_rows(contract.parent, [{**row, "source": "a"} for row in rows] + pair_rows())
    return [text for label, text in ready_for(contract).raw.remarks if label == "warning"]


def test_pairs_that_contradict_each_other_are_named(contract: Path) -> None:
    assert not contradictions(contract, ("Q", "a", "b"), ("R", "b", "a"), ("Q", "a", "b"))
    assert not contradictions(contract, ("Q", "a", "b"), ("Q", "b", "c"), ("Q", "a", "c"))
    (said,) = contradictions(contract, ("Q", "a", "b"), ("Q", "b", "a"), ("Q", "a", "c"))
    assert said.startswith("2 pairs of 51 contradict each other")
    assert "lines 1, 2" in said
    # A chain: a before b, b before c, c before a.
    (said,) = contradictions(contract, ("Q", "a", "b"), ("Q", "b", "c"), ("Q", "c", "a"))
    assert said.startswith("3 pairs of 51 contradict each other")


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"chosen": "a", "rejected": "a"}, "the answers of a pair are the same"),
        ({"chosen": "a", "rejected": ""}, "a pair lacks a prompt or an answer"),
        ({"chosen": "a", "rejected": "b", "prompt": ""}, "a pair lacks a prompt or an answer"),
        ({"chosen": "a\x1e", "rejected": "b"}, "a message holds a mark of the template"),
        (
            {
                "prompt": "",
                "chosen": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}],
                "rejected": [
                    {"role": "user", "content": "c"},
                    {"role": "assistant", "content": "d"},
                ],
            },
            "the answers of a pair follow other messages",
        ),
    ],
)
def test_a_row_that_is_no_pair_is_one_error(contract: Path, row: dict[str, Any], said: str) -> None:
    write_rows(contract.parent, [*pair_rows(), {"prompt": "Say.", "source": "a", **row}])
    before = tree(contract.parent)
    with inside(contract.parent):
        refused = command("train", "contract.yaml")
    assert refused.code == 2
    assert "pairs.jsonl:49: " in refused.err
    assert said in refused.err
    assert tree(contract.parent) == before


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("training.loss.name=cross_entropy", "cross_entropy is no loss of preferences"),
        ("metric.name=perplexity", "perplexity is no metric of data of kind preferences"),
        (
            "model={kind: gpt, context: 96, rotary_scaling: {kind: linear, factor: 2}}",
            "preferences are learned from a base",
        ),
        ("data={kind: tokens, path: text.txt}", "preference_accuracy is no metric of data"),
        ("data.chosen=best", "there is no column 'best'"),
        ("data.sampling={kind: balanced}", "expected: uniform"),
    ],
)
def test_what_does_not_go_with_preferences(contract: Path, setting: str, said: str) -> None:
    with pytest.raises(Mistake, match=said):
        ready_for(contract, setting)


def test_the_model_answers_and_other_pairs_are_not_judged(contract: Path) -> None:
    with inside(contract.parent):
        ran = command("train", "contract.yaml", "--run", "done", "--set", "training.num_epochs=1")
        asked = command("generate", "done", "--chat", "Say 3.", "--tokens", "5", "--json")
        judged = command("evaluate", "done", "pairs.jsonl")
        shown = command("report", "done")
    assert ran.code in (0, 3), ran.err
    assert asked.code == 0, asked.err
    assert json.loads(asked.out)["tokens"] <= 5
    assert judged.code == 2
    assert "other preferences are not judged" in judged.err
    assert shown.code == 0, shown.err
    assert "Histogram of the margins" in (contract.parent / "runs/done/report.html").read_text()
    assert Dpo(name="dpo").beta == 0.1
