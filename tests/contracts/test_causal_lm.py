"""Causal language models of transformers, of any architecture: beside a plain loop of transformers,
packed, resumed, written and refused."""

from __future__ import annotations

import json
import random
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from torch.nn import functional  # noqa: E402

from canary import Killed  # noqa: E402
from command import command, inside  # noqa: E402
from contract_runs import bits, train  # noqa: E402
from made_decoders import write_decoder_project  # noqa: E402
from trainwright.contract.sections.model.causal_lm import CausalLm  # noqa: E402
from trainwright.core.errors import Mistake  # noqa: E402
from trainwright.model.attention.key_value_cache import KeyValueCache  # noqa: E402
from trainwright.model.families import network_family  # noqa: E402
from trainwright.model.input_shape import TokenShape  # noqa: E402

pytestmark = pytest.mark.torch

SMALL: dict[str, Any] = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 64,
    "vocab_size": 288,
}
KINDS: dict[str, dict[str, Any]] = {
    "gpt_neox": {**SMALL, "hidden_dropout": 0.1},
    "phi": SMALL,
    "mistral": {**SMALL, "num_key_value_heads": 2, "sliding_window": None},
    "gemma": {**SMALL, "num_key_value_heads": 1, "head_dim": 8},
    "opt": {**SMALL, "ffn_dim": 48, "word_embed_proj_dim": 32, "dropout": 0.0},
}
CONTRACT = """\
name: tale
task: generation
data: {kind: tokens, path: text.txt, vocabulary: tokenizer, tokenizer: base/tokenizer.json,
       separator: " and ", windows: packed, validation: 0.1, test: 0.1}
model: {kind: causal_lm, architecture: base, context: 16}
training: {num_steps: 4, batch_size: 4, gradient_accumulation_steps: 2, early_stopping: off,
           gradient_clipping: off, optimizer: {learning_rate: 0.003, weight_decay: 0.0},
           scheduler: {name: constant}, checkpointing: {save_every_n_steps: 1}}
metric: {name: bits_per_byte, target: baseline, resamples: 100}
"""


def write_base(kind: str, folder: Path, **changes: Any) -> Any:
    torch.manual_seed(0)
    config = transformers.AutoConfig.for_model(kind, **{**KINDS.get(kind, SMALL), **changes})
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    model.save_pretrained(folder)
    return model


@pytest.fixture
def contract(tmp_path: Path) -> Path:
    write_decoder_project(tmp_path)
    for file in (tmp_path / "base").glob("*model*"):
        file.unlink()
    (tmp_path / "tale.yaml").write_text(CONTRACT)
    return tmp_path / "tale.yaml"


@pytest.mark.parametrize("kind", KINDS)
def test_a_training_is_that_of_a_plain_loop(kind: str, contract: Path) -> None:
    """Logits, losses and weights after four steps of two micro-batches of packed documents, each
    of which a plain loop feeds to transformers by itself."""
    theirs = write_base(
        kind, contract.parent / "base", **({"hidden_dropout": 0.0} if kind == "gpt_neox" else {})
    )
    run = train(contract, "one")
    feed, optimizer = run.job.feed, torch.optim.AdamW(theirs.parameters(), 0.003, weight_decay=0.0)
    feed.seek(0)
    losses = []
    for _ in range(4):
        optimizer.zero_grad()
        work, total = feed.next_step(), 0.0
        for batch in work.micro_batches:
            tokens, positions, target = batch
            for row, starts, wanted in zip(tokens, positions, target, strict=True):
                begins = [*torch.nonzero(starts == 0)[:, 0].tolist(), len(row)]
                for a, b in pairwise(begins):
                    logits = theirs(input_ids=row[None, a:b], use_cache=False).logits[0]
                    counted = wanted[a:b] >= 0
                    if counted.any():
                        loss = functional.cross_entropy(
                            logits[counted], wanted[a:b][counted], reduction="sum"
                        )
                        (loss / work.targets).backward()
                        total += float(loss.detach())
        optimizer.step()
        losses.append(total / work.targets)
    assert run.signals["loss"] == pytest.approx(losses, abs=2e-5)
    mine = run.job.model.get_submodule("model").state_dict()
    for name, value in theirs.state_dict().items():
        assert (mine[name] - value).abs().max() < 5e-5, name


@pytest.mark.parametrize("kind", ["gpt_neox", "gemma"])
def test_a_run_cut_in_two_has_the_same_bits(kind: str, contract: Path) -> None:
    write_base(kind, contract.parent / "base")
    whole = train(contract, "whole")
    with pytest.raises(Killed):
        train(contract, "cut", dies_at=random.Random().randint(1, 3))
    assert bits(train(contract, "cut")) == bits(whole)


@pytest.mark.extended
def test_it_is_judged_continued_and_opened_in_transformers(contract: Path) -> None:
    write_base("gemma", contract.parent / "base")
    with inside(contract.parent):
        ran = command("train", contract.name, "--run", "one")
        assert ran.code in (0, 3), ran.err
        words = ("generate", "one", "the tide", "--tokens", "30", "--temperature", "0")
        made = command(*words)
        assert made.code == 0, made.err
        assert command(*words).out == made.out
        ran = command("weights", "export", "one", "--to", "huggingface", "-o", "out")
        assert ran.code == 0, ran.err
        assert command("evaluate", "one", "text.txt").code in (0, 3)
    opened = transformers.AutoModelForCausalLM.from_pretrained(contract.parent / "out").eval()
    from trainwright.predictor.bundle import read_bundle

    network = read_bundle(contract.parent / "runs/one/bundle").scorer.network  # type: ignore[attr-defined]
    tokens = torch.randint(0, 280, (2, 16), generator=torch.Generator().manual_seed(0))
    assert (opened(tokens).logits - network(tokens)).abs().max() < 1e-5
    # Greedy, as transformers writes it.
    cache, last = KeyValueCache(), tokens[:1, :6]
    written = []
    for _ in range(5):
        last = network.extend(last, cache).argmax(dim=1, keepdim=True)
        written.append(int(last))
    theirs = opened.generate(
        tokens[:1, :6], max_new_tokens=5, do_sample=False, eos_token_id=None, pad_token_id=0
    )
    assert theirs[0, 6:].tolist() == written


def refused(contract: Path, *settings: str) -> str:
    with inside(contract.parent):
        words = [word for one in settings for word in ("--set", one)]
        ran = command("train", contract.name, "--run", "one", *words)
        assert ran.code == 2, ran.err
        assert not Path("runs").exists()
    return ran.err


def test_what_it_cannot_do_is_refused(contract: Path) -> None:
    base = contract.parent / "base"
    write_base("mistral", base, num_key_value_heads=2, sliding_window=8)
    assert "cannot keep the documents of a packed window apart" in refused(contract)
    assert "the windows are longer than the positions" in refused(contract, "model.context=65")
    assert "the decoder has no place" in refused(
        contract, "model={kind: gpt, architecture: base, context: 16}"
    )
    write_base("bert", base)
    assert "bert sees the tokens that it should predict" in refused(contract)
    write_base("bloom", base, n_head=4, n_layer=2)
    assert "cannot keep the documents of a packed window apart" in refused(contract)
    config = json.loads((base / "config.json").read_text())
    (base / "config.json").write_text(json.dumps({**config, "model_type": "vit"}))
    assert "vit has no head for the next token" in refused(contract)
    write_base("phi", base, vocab_size=100)
    assert "tokens that the model does not know" in refused(contract)
    write_base("phi", base)
    assert "need its own tokenizer" in refused(
        contract, "data.vocabulary=bytes", "data.tokenizer=''"
    )


def test_random_weights_need_the_configuration_alone(contract: Path) -> None:
    write_base("phi", contract.parent / "base")
    (contract.parent / "base" / "model.safetensors").unlink()
    own = ("model.weights=none", "data.vocabulary=bytes", "data.tokenizer=''")
    assert len(train(contract, "own", *own).signals["loss"]) == 4
    with pytest.raises(Mistake, match="has no weights"):
        train(contract, "other")


def test_a_model_without_a_cache_writes_nothing(tmp_path: Path) -> None:
    write_base("phi", tmp_path / "base")
    section = CausalLm(kind="causal_lm", architecture="base", context=16)
    family = network_family(section)
    section = family.read_files(section, tmp_path)
    network: Any = family.build(section, TokenShape(280))

    class Blind(torch.nn.Module):
        config = network.model.config

        def forward(self, input_ids: Any, **_: Any) -> Any:
            return transformers.modeling_outputs.CausalLMOutput(logits=torch.zeros(1, 1, 9))

    network.model = Blind()
    with pytest.raises(Mistake, match="has no cache"):
        network.extend(torch.zeros(1, 1, dtype=torch.int64), KeyValueCache())
