"""Chats in whole runs: the loss of answers, exact resume, the same updates however a step is
divided, answers that do not fit, and generation."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

import torch
from torch.nn import functional

from canary import Killed
from command import command, inside, tree
from contract_runs import Run, bits, train
from faults.tiers import also_slow
from real_data import real_data
from trainwright.core.errors import ContractMistake
from trainwright.core.progress import StopFlag
from trainwright.data.chats.chat_encoding import ChatEncoding
from trainwright.data.quality.finding import Finding
from trainwright.planner.kinds.data_planner import planner_of
from trainwright.predictor.network_scorer import NetworkScorer
from trainwright.run.compose.compose_job import compose
from trainwright.run.folder.check_own_files import read_own_bundle
from trainwright.run.prepare.prepare_run import Ready, make_ready
from trainwright.run.request import Request
from trainwright.run.run_context import RunContext
from trainwright.run.screen import StageTimes, StreamScreen
from trainwright.tracking.run_folder import RunFolder

pytestmark = pytest.mark.torch

CONTRACT = """
name: chats
task: generation
data: {kind: chats, path: chats.jsonl, template: plain, validation: 0.15, test: 0.15}
model: {kind: gpt, layers: 1, heads: 2, width: 16, context: 128, dropout: 0.1}
training: {num_epochs: 3, batch_size: 4, gradient_accumulation_steps: 2, early_stopping: off,
           optimizer: {learning_rate: 0.01}, checkpointing: {save_every_n_steps: 1}}
metric: {name: perplexity, target: dummy, resamples: 200}
slices: [{column: role}, {column: source}]
"""
STEPS = 10


def chat_rows() -> list[dict[str, Any]]:
    draw = np.random.default_rng(3)
    rows = []
    for number in range(60):
        asked = {"role": "user", "content": f"Count to {number}."}
        counted = "".join(draw.choice(list("ab "), draw.integers(1, 20)))
        messages = [asked, {"role": "assistant", "content": f"{counted}."}]
        if number % 3 == 0:
            call = {"role": "function_call", "content": f"f({number})"}
            messages = [asked, call, {"role": "observation", "content": "ok"}, messages[1]]
        rows.append({"messages": messages, "source": "ab"[number % 2]})
    return rows


@pytest.fixture
def contract(tmp_path: Path) -> Path:
    (tmp_path / "chats.jsonl").write_text("".join(json.dumps(row) + "\n" for row in chat_rows()))
    (tmp_path / "contract.yaml").write_text(CONTRACT)
    return tmp_path / "contract.yaml"


def ready_for(contract: Path, *overrides: str) -> Ready:
    return make_ready(Request(contract, overrides), StageTimes(), StreamScreen(io.StringIO()))


@pytest.mark.parametrize("windows", ["packed", "padded"])
def test_a_step_has_the_mean_over_answers_that_a_loop_by_hand_has(
    contract: Path, windows: str
) -> None:
    """Every chat by itself, token by token, and the labels of -100 of transformers."""
    whole = ("training.batch_size=100", "training.gradient_accumulation_steps=1")
    kind = (f"data.windows={windows}", "model.dropout=0.0", *whole, "training.stop.max_steps=1")
    run = train(contract, windows, *kind)
    prepared, rows = run.ready.prepared, chat_rows()
    words = ChatEncoding.of_kind(prepared.features)
    start = network_of(run.ready, contract).requires_grad_(requires_grad=False)
    total, count, ignoring = 0.0, 0, []
    for row in sorted(set(prepared.train.rows.tolist())):
        tokens, labels = by_hand(words, rows[row]["messages"])
        logits = start(torch.tensor([tokens]))[0].double()
        for at in range(1, len(tokens)):
            if labels[at] != -100:
                total -= float(torch.log_softmax(logits[at - 1], 0)[labels[at]])
                count += 1
        ignoring.append((logits[:-1], torch.tensor(labels[1:])))
    shifted = functional.cross_entropy(
        torch.cat([one for one, _ in ignoring]), torch.cat([one for _, one in ignoring])
    )
    assert count == int(prepared.train.target.sum())
    assert run.signals["loss"][0] == pytest.approx(total / count, rel=1e-5)
    assert float(shifted) == pytest.approx(total / count, rel=1e-9)


def network_of(ready: Ready, contract: Path) -> torch.nn.Module:
    """The network before the first step."""
    folder = RunFolder.create(contract.parent / "runs", "start")
    context = RunContext(folder, (), StreamScreen(io.StringIO()), StopFlag())
    composed = compose(ready.plan.contract.model, ready.plan, ready.prepared, context)
    return composed.scorer.network.eval()


def by_hand(words: ChatEncoding, messages: list[dict[str, str]]) -> tuple[list[int], list[int]]:
    """Tokens of a chat, and -100 where they are no answer."""
    tokens: list[int] = []
    labels: list[int] = []
    for at, message in enumerate(messages):
        head = "assistant" if message["role"] == "function_call" else message["role"]
        before = words.vocabulary.encode(("\n\n" if at else "") + f"### {head}\n").tolist()
        said = words.vocabulary.encode(message["content"] + "\x1e").tolist()
        is_learned = message["role"] in ("assistant", "function_call")
        tokens += before + said
        labels += [-100] * len(before) + (said if is_learned else [-100] * len(said))
    return tokens, labels


@pytest.mark.parametrize("windows", ["packed", "padded"])
@pytest.mark.parametrize(
    "deaths", also_slow([[1, 4, 7]], [list(range(1, STEPS))]), ids=["some", "every"]
)
def test_a_run_goes_on_to_the_same_bits(contract: Path, windows: str, deaths: list[int]) -> None:
    short = (f"data.windows={windows}", f"training.stop.max_steps={STEPS}")
    wanted = train(contract, "whole", *short)
    for death in deaths:
        with pytest.raises(Killed):
            train(contract, f"cut-{death}", *short, dies_at=death)
        again = train(contract, f"cut-{death}", *short)
        assert bits(again) == bits(wanted)
        assert again.signals["loss"] == wanted.signals["loss"]


@pytest.mark.parametrize("windows", ["packed", "padded"])
def test_a_step_is_the_same_however_it_is_divided(contract: Path, windows: str) -> None:
    kind = (f"data.windows={windows}", "model.dropout=0.0", "training.stop.max_steps=4")
    runs = [
        train(
            contract,
            f"{rows}x{parts}",
            *kind,
            f"training.batch_size={rows}",
            f"training.gradient_accumulation_steps={parts}",
        )
        for rows, parts in ((8, 1), (2, 4))
    ]
    assert runs[0].signals["loss"] == pytest.approx(runs[1].signals["loss"], rel=1e-6)
    for name, tensor in weights_of(runs[0]).items():
        torch.testing.assert_close(tensor, weights_of(runs[1])[name], rtol=1e-4, atol=1e-6)


def weights_of(run: Run) -> dict[str, torch.Tensor]:
    return dict(run.job.state["model"].snapshot().tensors)


def test_answers_that_do_not_fit(contract: Path) -> None:
    rows = chat_rows()
    rows[0]["messages"] = [rows[0]["messages"][0], {"role": "assistant", "content": "a" * 150}]
    kept = rows[2]["messages"][0]
    rows[2]["messages"] = [
        kept,
        *({"role": role, "content": "a" * 60} for role in ("assistant", "user", "assistant")),
    ]
    training = set(ready_for(contract).prepared.train.rows.tolist())
    assert {0, 2} <= training
    (contract.parent / "chats.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    before = tree(contract.parent)
    with inside(contract.parent):
        refused = command("train", "contract.yaml")
    assert refused.code == 2
    assert "1 answer is longer than the window" in refused.err
    assert "line 1" in refused.err
    assert tree(contract.parent) == before
    needed = re.search(r"raise it to (\d+)", refused.err)
    assert needed is not None
    ready = ready_for(contract, f"model.context={needed[1]}")
    assert int(needed[1]) == 151
    (finding,) = findings_of(ready)
    assert "2 answers in line 1, line 3 lose" in finding.message
    assert finding.rows == (0, 2)
    alone = ready_for(contract, "data.long_documents=exclude")
    (finding,) = findings_of(alone)
    assert "2 training chats are longer than model.context 128 and excluded" in finding.message
    feed = train(contract, "excluded", "data.long_documents=exclude", "training.stop.max_steps=1")
    lengths = np.array(feed.ready.raw.facts.documents[""])
    assert (lengths > 129).sum() == 2


def findings_of(ready: Ready) -> list[Finding]:
    return list(planner_of(ready.plan.contract, ready.raw.facts).findings())


def test_a_prompt_without_room_for_its_answer(contract: Path) -> None:
    rows = chat_rows()
    rows[0]["messages"][0]["content"] = "word " * 40
    (contract.parent / "chats.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(ContractMistake, match="the first answer begins behind the window"):
        ready_for(contract)


@pytest.mark.parametrize(
    "row",
    [
        {"messages": [{"role": "user", "content": "Hi"}]},
        {"messages": [{"role": "robot", "content": "Hi"}]},
        {"messages": [{"role": "assistant", "content": "\x1e"}]},
        {"messages": "Hi"},
    ],
)
def test_a_row_that_is_no_chat_is_one_error(contract: Path, row: dict[str, Any]) -> None:
    with (contract.parent / "chats.jsonl").open("a") as file:
        file.write(json.dumps({**row, "source": "a"}) + "\n")
    before = tree(contract.parent)
    with inside(contract.parent):
        refused = command("train", "contract.yaml")
    assert refused.code == 2
    assert "chats.jsonl:61" in refused.err
    assert "Traceback" not in refused.err
    assert tree(contract.parent) == before


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained")
    (folder / "chats.jsonl").write_text("".join(json.dumps(row) + "\n" for row in chat_rows()))
    (folder / "contract.yaml").write_text(CONTRACT)
    with inside(folder):
        ran = command("train", "contract.yaml", "--run", "chats")
    assert ran.code in (0, 3), ran.err
    return folder


def test_the_conversation_is_the_unit_and_roles_are_slices(trained: Path) -> None:
    judged = json.loads((trained / "runs/chats/evaluation.json").read_text())["evaluation"]
    names = {one["name"] for one in judged["slices"]}
    assert names == {"role=assistant", "role=function_call", "source=a", "source=b"}
    folder = RunFolder(trained / "runs" / "chats")
    scorer = read_own_bundle(folder).scorer
    assert isinstance(scorer, NetworkScorer)
    prepared = ready_for(trained / "contract.yaml").prepared
    test = prepared.test
    nll = scorer.score(test.inputs)[:, 0]
    assert judged["metrics"]["perplexity"]["value"] == pytest.approx(
        np.exp(nll.sum() / test.target.sum()), rel=1e-6
    )
    assert len(set(test.units.tolist())) == len(set(test.rows.tolist())) < len(test)


def test_new_chats_are_judged(trained: Path) -> None:
    with inside(trained):
        ran = command("evaluate", "chats", "chats.jsonl", "--json")
    assert ran.code in (0, 3), ran.err
    assert json.loads(ran.out)["metrics"]["perplexity"]["value"] > 1


def test_an_answer_ends_its_turn(trained: Path) -> None:
    messages = [{"role": "user", "content": "Count to 3."}]
    asked = [{"prompt": "Count to 3."}, {"messages": messages}]
    (trained / "asked.jsonl").write_text("\n".join(map(json.dumps, asked)))
    with inside(trained):
        one = command("generate", "chats", "--chat", "Count to 3.", "--json", "--tokens", "60")
        many = command("generate", "chats", "--chat", "--from", "asked.jsonl", "--tokens", "60")
        plain = command(
            "generate", "chats", "### user\nCount to 3.\x1e\n\n### assistant\n", "--tokens", "60"
        )
        refused = command("generate", "chats", "--chat", "ends here \x1e")
    assert one.code == many.code == plain.code == 0, one.err
    first, second = map(json.loads, many.out.splitlines())
    assert first["text"] == json.loads(one.out)["text"] == plain.out.removesuffix("\n")
    assert second["prompt"] == messages
    assert refused.code == 2
    assert "a mark of the template" in refused.err


@pytest.mark.extended
def test_texts_have_no_template(tmp_path: Path) -> None:
    contract = CONTRACT.replace(
        "kind: chats, path: chats.jsonl, template: plain", "kind: tokens, path: text.txt"
    )
    (tmp_path / "contract.yaml").write_text(
        contract.replace("slices: [{column: role}, {column: source}]\n", "")
    )
    (tmp_path / "text.txt").write_text("a tide and a boat. " * 200)
    with inside(tmp_path):
        assert command("train", "contract.yaml", "--run", "texts").code in (0, 3)
        refused = command("generate", "texts", "--chat", "Hi")
    assert refused.code == 2
    assert "texts, which have no messages" in refused.err


def test_the_loss_is_that_of_transformers_with_labels_of_minus_100(
    contract: Path, tmp_path: Path
) -> None:
    """As trl fine-tunes: the mean over the labels of a padded batch that are not -100."""
    transformers = pytest.importorskip("transformers")
    shape = "norm: rms, feed_forward: swiglu, tied: false, layers: 1, heads: 2, width: 16"
    llama = f"model={{kind: gpt, {shape}, context: 128}}"
    with inside(tmp_path):
        ran = command("train", "contract.yaml", "--run", "llama", "--set", llama)
        exported = command("weights", "export", "llama", "--to", "huggingface", "-o", "base")
    assert ran.code in (0, 3), ran.err
    assert exported.code == 0, exported.err
    theirs = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "base").eval()
    prepared = ready_for(contract, llama).prepared
    words, rows = ChatEncoding.of_kind(prepared.features), chat_rows()
    chats = [by_hand(words, rows[row]["messages"]) for row in sorted(set(prepared.test.rows))]
    width = max(len(tokens) for tokens, _ in chats)
    tokens, labels, mask = (
        torch.tensor([one + [fill] * (width - len(one)) for one in column])
        for column, fill in (
            ([tokens for tokens, _ in chats], 0),
            ([labels for _, labels in chats], -100),
            ([[1] * len(tokens) for tokens, _ in chats], 0),
        )
    )
    with torch.no_grad():
        loss = float(theirs(input_ids=tokens, attention_mask=mask, labels=labels).loss)
    judged = json.loads((tmp_path / "runs/llama/evaluation.json").read_text())["evaluation"]
    assert judged["metrics"]["nats_per_token"]["value"] == pytest.approx(loss, rel=1e-5)


@pytest.mark.extended
@pytest.mark.parametrize(
    ("name", "file", "chats", "settings"),
    [
        (
            "toolcall-chat-demo",
            "glaive_toolcall_en_demo.jsonl",
            300,
            ("data.tools=tools", "data.long_documents=exclude", "model.context=2048"),
        ),
        ("alpaca-en-demo", "alpaca_en_demo.jsonl", 999, ("data.long_documents=exclude",)),
    ],
)
def test_real_conversations_and_instructions(
    contract: Path, name: str, file: str, chats: int, settings: tuple[str, ...]
) -> None:
    """Conversations of ShareGPT with calls of functions, and instructions with inputs."""
    path = f"data.path={real_data(name) / file}"
    few = ("data.vocabulary=bytes", "slices=[]", "training.stop.max_steps=2")
    run = train(contract, name, path, *settings, *few)
    prepared = run.ready.prepared
    parts = (prepared.train, prepared.validation, prepared.test)
    assert run.ready.raw.facts.rows == chats
    assert sum(len(set(part.rows.tolist())) for part in parts) == chats
    units = [set(part.units.tolist()) for part in parts]
    assert not units[0] & units[1]
    assert not units[0] & units[2]
    assert not units[1] & units[2]
    assert run.signals["loss"][0] == pytest.approx(np.log(256), rel=0.1)
