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

from safetensors.torch import load_file, save_file  # noqa: E402
from torch.nn import functional  # noqa: E402

from canary import Killed  # noqa: E402
from command import command, inside  # noqa: E402
from contract_runs import bits, train  # noqa: E402
from faults.tiers import in_test  # noqa: E402
from made_decoders import write_decoder_project  # noqa: E402
from trainwright.contract.sections.model.causal_lm import CausalLm  # noqa: E402
from trainwright.contract.sections.model.pretrained import Base  # noqa: E402
from trainwright.core.errors import Mistake  # noqa: E402
from trainwright.core.files import read_json  # noqa: E402
from trainwright.core.formatting import show_bytes  # noqa: E402
from trainwright.model.causal_attention import KeyValueCache  # noqa: E402
from trainwright.model.families import network_family  # noqa: E402
from trainwright.model.input_shape import TokenShape  # noqa: E402
from trainwright.predictor.bundle import read_bundle  # noqa: E402

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
metric: {name: bits_per_byte, target: dummy, resamples: 100}
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


@pytest.mark.parametrize("kind", in_test(2, list(KINDS)))
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


@pytest.mark.parametrize("kind", ["llama", "gpt2"])
@pytest.mark.parametrize("model", ["gpt", "causal_lm"])
def test_a_tied_head_with_weights_of_its_own_is_refused(
    tmp_path: Path, model: str, kind: str
) -> None:
    contract = write_decoder_project(tmp_path)
    sizes = {"n_embd": 32, "n_layer": 2, "n_head": 4} if kind == "gpt2" else SMALL
    changes = {**sizes, "vocab_size": 288, "tie_word_embeddings": False}
    theirs = write_base(kind, tmp_path / "base", **changes)
    file = tmp_path / "base" / "config.json"
    setting = f"model={{kind: {model}, architecture: base, context: 16}}"
    for is_equal in (False, True):
        if is_equal:
            head, embedding = theirs.get_output_embeddings(), theirs.get_input_embeddings()
            head.weight.data.copy_(embedding.weight.data)
            theirs.save_pretrained(tmp_path / "base")
        tied = json.loads(file.read_text()) | {"tie_word_embeddings": True}
        file.write_text(json.dumps(tied))
        with inside(tmp_path):
            ran = command("check", contract.name, "--set", setting)
        assert ("its head is not its embedding" in ran.err) is not is_equal
        assert (ran.code == 2) is not is_equal, ran.err


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


@pytest.mark.extended
def test_a_model_without_a_cache_writes_what_transformers_writes(contract: Path) -> None:
    """GPT-1 has no cache of keys and values: all of the text is read again for each token."""
    shape = {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64, "vocab_size": 288}
    write_base("openai-gpt", contract.parent / "base", **shape)
    (contract.parent / "asked.jsonl").write_text(
        "".join(
            json.dumps({"question": f"the tide {n}", "answer": "was low"}) + "\n" for n in range(9)
        )
    )
    padded = (
        "--set",
        "data.windows=padded",
        "--set",
        "questions=[{path: asked.jsonl, tokens: 3, target: none}]",
    )
    with inside(contract.parent):
        ran = command("train", contract.name, "--run", "one", *padded)
        assert ran.code in (0, 3), ran.err
        assert "exact_match" in json.dumps(read_json(Path("runs/one/evaluation.json")))
        words = ("generate", "one", "the tide", "--tokens", "9", "--temperature", "0", "--json")
        made = command(*words)
        assert made.code == 0, made.err
        assert command("weights", "export", "one", "--to", "huggingface", "-o", "out").code == 0
    opened = transformers.AutoModelForCausalLM.from_pretrained(contract.parent / "out").eval()
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_file=str(contract.parent / "base" / "tokenizer.json")
    )
    given = tokenizer("the tide", return_tensors="pt").input_ids
    begun = given.shape[1]
    with torch.no_grad():
        for _ in range(9):
            logits = opened(given).logits[:, -1, :280]
            given = torch.cat([given, logits.argmax(-1, keepdim=True)], dim=1)
    assert json.loads(made.out)["text"] == tokenizer.decode(given[0, begun:])


LORA = "model.adapter={kind: lora, rank: 2, alpha: 4, dropout: 0.1}"


def test_an_adapter_is_kept_alone_merged_and_refused_another_base(contract: Path) -> None:
    base = contract.parent / "base"
    write_base("gpt_neox", base)
    with inside(contract.parent):
        ran = command("train", contract.name, "--run", "one", "--set", LORA)
        assert ran.code in (0, 3), ran.err
        assert command("weights", "merge", "one", "-o", "out").code == 0
        words = ("generate", "one", "the tide", "--tokens", "12", "--temperature", "0")
        made = command(*words, "--with-base")
        assert made.code == 0, made.err
        assert "== base\n" in made.out
        bundle = Path("runs/one/bundle")
        names = [*load_file(bundle / "adapter.safetensors")]
        (*_, newest) = sorted(Path("runs/one/checkpoints").glob("step-*"))
        names += load_file(newest / "model.safetensors")
        # Four layers in each of two blocks, two factors each; the head has none.
        assert len(names) == 2 * 16
        assert all(".lora_" in name for name in names)
        network: Any = read_bundle(bundle).scorer.network  # type: ignore[attr-defined]
        opened = transformers.AutoModelForCausalLM.from_pretrained("out").eval()
        tokens = torch.randint(0, 280, (2, 16), generator=torch.Generator().manual_seed(0))
        assert (opened(tokens).logits - network(tokens)).abs().max() < 1e-5
        plain = transformers.AutoModelForCausalLM.from_pretrained("base").eval()
        assert (plain(tokens).logits - network(tokens)).abs().max() > 1e-5
        file = base / "model.safetensors"
        moved = {name: one + 1e-3 for name, one in load_file(file).items()}
        save_file(moved, file, metadata={"format": "pt"})
        lost = command(*words)
    assert lost.code == 2
    assert "the adapter belongs to another base" in lost.err


@pytest.mark.parametrize("adapter", [LORA, "model.adapter={kind: ia3}"], ids=["lora", "ia3"])
def test_a_cut_run_of_an_adapter_has_the_same_bits(adapter: str, contract: Path) -> None:
    write_base("mistral", contract.parent / "base")
    whole = train(contract, "whole", adapter)
    with pytest.raises(Killed):
        train(contract, "cut", adapter, dies_at=random.Random().randint(1, 3))
    assert bits(train(contract, "cut", adapter)) == bits(whole)


@pytest.mark.extended
def test_a_fused_head_trains_alike(contract: Path) -> None:
    base = contract.parent / "base"
    write_base("gemma", base)
    fused = "training.memory.head_loss=fused"
    plain, joined = train(contract, "plain"), train(contract, "joined", fused)
    assert joined.signals["loss"] == pytest.approx(plain.signals["loss"], abs=2e-5)
    kept = [run.ready.plan.memory.activations for run in (plain, joined)]
    assert kept[1] < kept[0]
    with pytest.raises(Killed):
        train(contract, "cut", fused, LORA, dies_at=2)
    resumed = bits(train(contract, "cut", fused, LORA))
    assert resumed == bits(train(contract, "fused", fused, LORA))


def test_a_fused_head_is_refused_where_logits_are_more_than_a_product(contract: Path) -> None:
    base, fused = contract.parent / "base", "training.memory.head_loss=fused"
    said = "does more after its last layer than a product with the head"
    for kind, changes in (
        ("phi", {}),
        ("gemma2", {"num_key_value_heads": 1, "head_dim": 8, "final_logit_softcapping": 30.0}),
        ("cohere", {"num_key_value_heads": 2, "logit_scale": 0.0625}),
    ):
        write_base(kind, base, **changes)
        assert said in refused(contract, "data.windows=padded", fused), kind


def test_an_adapter_that_cannot_be_trained_is_refused(contract: Path) -> None:
    write_base("phi", contract.parent / "base")
    assert "the base has no layer 'query' to adapt" in refused(
        contract, "model.adapter={kind: lora, targets: [query]}"
    )
    assert "model.adapter" in refused(contract, "model.adapter={kind: prompt_tuning}")
    own = ("model.weights=none", "data.vocabulary=bytes", "data.tokenizer=''")
    assert "beside the weights of a base" in refused(contract, LORA, *own)
    # The head is no target.
    assert "the base has no layer 'lm_head' to adapt" in refused(
        contract, "model.adapter={kind: lora, targets: [lm_head]}"
    )


@pytest.mark.extended
def test_init_proposes_an_adapter_of_another_decoder(contract: Path) -> None:
    write_base("gpt_neox", contract.parent / "base")
    with inside(contract.parent):
        ran = command("init", "text.txt", "--base", "base", "-o", "own.yaml")
        assert ran.code == 0, ran.err
        written = Path("own.yaml").read_text()
        assert "kind: causal_lm" in written
        assert "quantization" not in written
        assert "kind: lora  # or rslora, dora, ia3\n" in written
        few = ("--set", "training.stop.max_steps=2")
        trained = command("train", "own.yaml", "--run", "own", *few)
        assert trained.code in (0, 3), trained.err
        plan = read_json(Path("runs/own/plan.json"))
        parameters, memory = plan["estimate"]["parameters"], plan["memory"]
        beside = memory["gradients"] + memory["optimizer"] + 4 * parameters
        assert f"rank 4: {show_bytes(beside)}," in written


@pytest.mark.extended
def test_a_bundle_is_below_two_percent_of_its_base() -> None:
    """Of a GPT-NeoX of 160 million weights, counted without them."""
    config = transformers.GPTNeoXConfig(
        hidden_size=768, intermediate_size=3072, num_hidden_layers=12, num_attention_heads=12,
        vocab_size=50_304, max_position_embeddings=2048,
    ).to_json_string()  # fmt: skip
    base = Base(reads="tokens", config=config, weights="0", longest=2048)
    values = {"kind": "causal_lm", "architecture": "base", "context": 64, "base": base}
    section = CausalLm.model_validate({**values, "adapter": {"kind": "lora", "rank": 8}})
    family, shape = network_family(section), TokenShape(50_304)
    frozen = family.count_frozen(section, shape)
    assert frozen > 160e6
    assert family.count_parameters(section, shape) < 0.02 * frozen
