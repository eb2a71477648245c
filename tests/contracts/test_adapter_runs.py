"""Runs that train an adapter: what is kept of them, resumed, merged and refused."""

from __future__ import annotations

import importlib.util
import json
import shutil
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
pytest.importorskip("peft")

from safetensors.torch import load_file, save_file  # noqa: E402

from canary import Killed  # noqa: E402
from command import command, inside, tree  # noqa: E402
from contract_runs import bits, train  # noqa: E402
from made_decoders import write_decoder_project  # noqa: E402
from made_image_bases import write_image_base, write_image_project  # noqa: E402
from made_texts import sentences, write_text_project  # noqa: E402
from stopped_runs import cut_run_of, run_of  # noqa: E402
from trainwright.core.errors import Mistake  # noqa: E402
from trainwright.core.files import (  # noqa: E402
    hash_file,
    read_json,
)
from trainwright.core.formatting import show_bytes  # noqa: E402
from trainwright.predictor.bundle import read_bundle  # noqa: E402

pytestmark = pytest.mark.torch

LORA = "model.adapter={kind: lora, rank: 2, alpha: 4, dropout: 0.1}"
DORA = "model.adapter={kind: dora, rank: 2, targets: [q_proj, down_proj]}"
IA3 = "model.adapter={kind: ia3}"
PROMPT = "model.adapter={kind: prompt_tuning, tokens: 3}"
NF4, INT8 = "model.quantization=nf4", "model.quantization=int8"


@pytest.fixture(autouse=True)
def _offline(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("TRAINWRIGHT_CACHE", str(tmp_path / "kept"))
    monkeypatch.delenv("TRAINWRIGHT_BASE", raising=False)


def hide(patch: pytest.MonkeyPatch, package: str) -> None:
    """As if it were not installed."""
    find = importlib.util.find_spec

    def found(name: str, *rest: str) -> ModuleSpec | None:
        return None if name == package else find(name, *rest)

    patch.setattr("trainwright.core.lazy_imports.find_spec", found)


def change_base(folder: Path) -> None:
    file = folder / "model.safetensors"
    save_file({k: v + 1e-3 for k, v in load_file(file).items()}, file, metadata={"format": "pt"})


@pytest.mark.extended
def test_a_run_keeps_the_adapter_alone(tmp_path: Path) -> None:
    contract = write_decoder_project(tmp_path)
    before = (tmp_path / "base" / "model.safetensors").read_bytes()
    rate = "training.optimizer.learning_rate=0.01"
    average, purpose = "training.average={kind: ema}", "purpose=adapter"
    run = run_of(contract, "one", LORA, rate, average, purpose)
    clause = read_json(run / "evaluation.json")["verdict"]["clauses"][-1]
    assert clause["name"] == "adapter: an adapter alone, with the SHA-256 of its base"
    assert clause["status"] == "met"
    assert (tmp_path / "base" / "model.safetensors").read_bytes() == before
    assert not list((run / "checkpoints").glob("base-*"))
    names = [*load_file(run / "bundle" / "adapter.safetensors")]
    names += load_file(next((run / "checkpoints").glob("step-*6")) / "model.safetensors")
    # The average also has the angles of the positions.
    mean = load_file(next((run / "checkpoints").glob("step-*6")) / "mean.safetensors")
    names += [name for name in mean if name not in ("cosines", "sines")]
    # Seven layers in each of two blocks, two factors each.
    assert len(names) == 3 * 28
    assert all(".lora_" in name for name in names)
    plan = read_json(run / "plan.json")
    assert plan["estimate"]["parameters"] == 2 * 2 * (2 * 96 + 2 * 72 + 3 * 136)
    base = sum(one.numel() for one in load_file(tmp_path / "base" / "model.safetensors").values())
    weights = 4 * (2 * plan["estimate"]["parameters"] + base)
    assert plan["memory"]["weights"] == weights
    about = read_json(run / "bundle" / "network.json")
    assert about["model"]["base"]["weights"] == hash_file(tmp_path / "base" / "model.safetensors")


@pytest.mark.extended
def test_merged_it_opens_in_transformers_and_scores_alike(tmp_path: Path) -> None:
    contract = write_decoder_project(tmp_path)
    run = run_of(contract, "one", DORA, "training.optimizer.learning_rate=0.01")
    with inside(tmp_path):
        ran = command("weights", "merge", "one", "-o", "out")
        assert ran.code == 0, ran.err
        assert "LlamaForCausalLM in out" in ran.out
        again = command("weights", "merge", "one", "-o", "out")
    assert again.code == 2
    assert "there already" in again.err
    tokens = torch.randint(0, 280, (2, 32), generator=torch.Generator().manual_seed(0))
    network = read_bundle(run / "bundle").scorer.network  # type: ignore[attr-defined]
    merged = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "out").eval()
    base = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "base").eval()
    assert (merged(tokens).logits - network(tokens)).abs().max() < 1e-5
    assert (base(tokens).logits - network(tokens)).abs().max() > 1e-3
    changed = {
        name
        for name, one in base.state_dict().items()
        if not torch.equal(one, merged.state_dict()[name])
    }
    assert {name.split(".")[-2] for name in changed} == {"q_proj", "down_proj"}
    # It is a base like any other.
    (tmp_path / "next.yaml").write_text(contract.read_text().replace("base", "out"))
    run_of(tmp_path / "next.yaml", "next", LORA)


@pytest.mark.parametrize(
    "adapter",
    [(LORA,), (DORA,), (IA3,), (PROMPT,), (LORA, NF4), (IA3, INT8)],
    ids=["lora", "dora", "ia3", "prompt", "nf4", "int8"],
)
def test_a_cut_run_goes_on_to_the_same_bits(tmp_path: Path, adapter: tuple[str, ...]) -> None:
    contract = write_decoder_project(tmp_path)
    settings = (
        *adapter,
        "training.optimizer.learning_rate=0.01",
        "training.checkpointing={save_every_n_steps: 1}",
        "training.gradient_accumulation_steps=2",
    )
    whole = train(contract, "whole", *settings)
    # Each process goes on where the last one died.
    for step in np.random.default_rng(len(str(adapter))).integers(1, 3, 2).tolist():
        with pytest.raises(Killed):
            train(contract, "cut", *settings, dies_at=step)
    assert bits(train(contract, "cut", *settings)) == bits(whole)


def test_a_prompt_is_generated_behind_and_cannot_be_merged(tmp_path: Path) -> None:
    contract = write_decoder_project(tmp_path)
    run = run_of(contract, "one", PROMPT, "training.optimizer.learning_rate=0.05")
    assert list(load_file(run / "bundle" / "adapter.safetensors")) == ["prompt.embedding.weight"]
    network = read_bundle(run / "bundle").scorer.network  # type: ignore[attr-defined]
    with inside(tmp_path):
        words = ("the tide", "--tokens", "40", "--temperature", "0", "--json")
        written = command("generate", "one", *words)
        merged = command("weights", "merge", "one", "-o", "out")
        exported = command("weights", "export", "one", "--to", "huggingface", "-o", "out")
    assert written.code == 0, written.err
    said = json.loads(written.out)["text"]
    from trainwright.data.encoders.vocabulary import TokenEncoding

    vocabulary = TokenEncoding.of_kind(read_bundle(run / "bundle").features).vocabulary
    tokens = np.concatenate(vocabulary.encode_each(["the tide"])).tolist()
    begun = len(tokens)
    with torch.no_grad():
        for _ in range(20):
            tokens.append(int(network(torch.tensor([tokens]))[0, -1, : vocabulary.size].argmax()))
    assert said.startswith(vocabulary.decode(np.array(tokens[begun:], dtype=np.uint16)))
    assert (merged.code, exported.code) == (2, 2)
    assert "change no weight of the base" in merged.err
    assert not (tmp_path / "out").exists()


@pytest.mark.extended
def test_init_proposes_an_adapter_of_a_base_with_its_memory(tmp_path: Path) -> None:
    write_decoder_project(tmp_path)
    with inside(tmp_path):
        ran = command("init", "text.txt", "--base", "base", "-o", "own.yaml")
        assert ran.code == 0, ran.err
        written = (tmp_path / "own.yaml").read_text()
        few = ("--set", "training.stop.max_steps=2", "--set", "model.adapter.rank=8")
        trained = command("train", "own.yaml", "--run", "own", *few)
        (tmp_path / "own.csv").write_text("a,b\n1,2\n3,4\n")
        refused = [
            command("init", "text.txt", "--base", "nowhere", "-o", "other.yaml"),
            command("init", "own.csv", "--target", "a", "--base", "base", "-o", "other.yaml"),
        ]
    assert trained.code in (0, 3), trained.err
    plan = read_json(tmp_path / "runs" / "own" / "plan.json")
    parameters, memory = plan["estimate"]["parameters"], plan["memory"]
    base = memory["weights"] - 4 * parameters
    beside = memory["gradients"] + memory["optimizer"] + 4 * parameters
    assert f"8: {show_bytes(beside)}," in written
    assert show_bytes(base) in written
    # So small a base has no rank below 2%: the lowest.
    assert "rank: 4  #" in written
    assert "alpha: 8  #" in written
    assert [one.code for one in refused] == [2, 2]
    assert "has no tokenizer beside it" in refused[0].err
    assert "only texts are learned beside a base" in refused[1].err
    assert not (tmp_path / "other.yaml").exists()


@pytest.mark.extended
def test_adapters_on_one_base_hold_it_once_and_write_beside_each_other(tmp_path: Path) -> None:
    contract = write_decoder_project(tmp_path)
    rate = "training.optimizer.learning_rate=0.02"
    for name, adapter in (("one", LORA), ("two", "model.adapter={kind: rslora, rank: 4}")):
        run_of(contract, name, adapter, rate)
    run_of(contract, "soft", PROMPT, "training.optimizer.learning_rate=0.3")
    loaded = [read_bundle(tmp_path / "runs" / name / "bundle") for name in ("one", "two")]
    tensors = [dict(each.scorer.network.named_parameters()) for each in loaded]  # type: ignore[attr-defined]
    of_base = [name for name in tensors[0] if ".lora_" not in name]
    assert of_base == [name for name in tensors[1] if ".lora_" not in name]
    assert all(tensors[0][name] is tensors[1][name] for name in of_base)
    tokens = torch.randint(0, 280, (2, 32), generator=torch.Generator().manual_seed(0))
    first, second = (each.scorer.network(tokens) for each in loaded)  # type: ignore[attr-defined]
    assert not torch.equal(first, second)

    words = ("the tide", "--temperature", "0", "--tokens", "12")
    with inside(tmp_path):
        alone = [command("generate", name, *words) for name in ("one", "two", "soft")]
        beside = ("--beside", "two", "--beside", "soft", "--with-base")
        together = command("generate", "one", *words, *beside)
        as_json = command("generate", "one", *words, *beside, "--json")
        of_prompt = command("generate", "soft", *words, "--with-base")
        assert (tmp_path / "prompts.txt").write_text("the tide\n")
        file = command("generate", "one", "--from", "prompts.txt", "--with-base")
    assert together.code == 0, together.err
    said = {one["run"]: one["text"] for one in json.loads(as_json.out)}
    assert list(said) == ["one", "two", "soft", "base"]
    for ran, name in zip(alone, said, strict=False):
        assert ran.out == said[name] + "\n"
        assert f"== {name}\n{said[name]}\n" in together.out
    # The base without the adapter is the base itself.
    assert of_prompt.out.endswith(f"== base\n{said['base']}\n")
    network = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "base").eval()
    written = transformers.PreTrainedTokenizerFast(
        tokenizer_file=str(tmp_path / "base/tokenizer.json")
    )
    prompt = written("the tide", return_tensors="pt").input_ids
    with torch.no_grad():
        for _ in range(12):
            logits = network(prompt).logits[:, -1, :280]
            prompt = torch.cat([prompt, logits.argmax(-1, keepdim=True)], dim=1)
    assert said["base"] == written.decode(prompt[0, -12:])
    assert file.code == 2
    assert "one prompt at a time" in file.err


@pytest.mark.extended
def test_adapters_on_two_bases_do_not_write_beside_each_other(tmp_path: Path) -> None:
    contract = write_decoder_project(tmp_path)
    run_of(contract, "one", LORA)
    run_of(contract, "whole")
    change_base(tmp_path / "base")
    run_of(contract, "two", LORA)
    with inside(tmp_path):
        for other in ("two", "whole"):
            ran = command("generate", "one", "the tide", "--beside", other)
            assert ran.code == 2
            assert "only adapters on one base" in ran.err
            assert f"{other}: " in ran.err


@pytest.mark.extended
@pytest.mark.parametrize("quantization", [NF4, INT8])
def test_a_quantised_base_is_merged_as_the_numbers_that_were_judged(
    quantization: str, tmp_path: Path
) -> None:
    contract = write_decoder_project(tmp_path)
    run = run_of(contract, "one", quantization, LORA, "training.optimizer.learning_rate=0.01")
    plan = read_json(run / "plan.json")
    whole = 4 * sum(one.numel() for one in load_file(tmp_path / "base/model.safetensors").values())
    assert plan["memory"]["weights"] < 0.85 * whole
    names = [*load_file(run / "bundle" / "adapter.safetensors")]
    names += load_file(next((run / "checkpoints").glob("step-*6")) / "model.safetensors")
    assert len(names) == 2 * 28
    assert all(".lora_" in name for name in names)
    with inside(tmp_path):
        assert command("weights", "merge", "one", "-o", "out").code == 0
    tokens = torch.randint(0, 280, (2, 32), generator=torch.Generator().manual_seed(0))
    network = read_bundle(run / "bundle").scorer.network  # type: ignore[attr-defined]
    merged = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "out").eval()
    assert (merged(tokens).logits - network(tokens)).abs().max() < 2e-5


def test_without_a_kernel_for_the_device_quantisation_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    contract = write_decoder_project(tmp_path)

    def no_kernel(*_: object) -> None:
        raise NotImplementedError("no kernel here")

    monkeypatch.setattr("trainwright.model.adapters.need_bitsandbytes._try_on", no_kernel)
    words = ("--set", LORA, "--set", NF4)
    with inside(tmp_path):
        ran = command("train", contract.name, *words)
        hide(monkeypatch, "bitsandbytes")
        missing = command("train", contract.name, *words)
    assert (ran.code, missing.code) == (2, 2)
    assert "bitsandbytes cannot quantise to nf4 on this device" in ran.err
    assert "no kernel here" in ran.err
    assert "pip install 'trainwright[eightbit]'" in missing.err
    assert not (tmp_path / "runs").exists()


def test_another_base_is_refused_by_a_resume_and_by_the_bundle(tmp_path: Path) -> None:
    contract = write_decoder_project(tmp_path)
    run = run_of(contract, "one", LORA)
    cut_run_of(contract, 3, LORA)
    change_base(tmp_path / "base")
    with inside(tmp_path):
        resumed = command("resume", "cut")
        written = command("generate", "one", "the tide")
        merged = command("weights", "merge", "one")
    assert (resumed.code, written.code, merged.code) == (2, 2, 2)
    assert "another base of its model" in resumed.err
    for said in (written.err, merged.err):
        assert "the adapter belongs to another base" in said
        assert "TRAINWRIGHT_BASE" in said
    assert not (tmp_path / "merged").exists()
    assert run.exists()


@pytest.mark.extended
def test_the_base_may_move(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    contract = write_decoder_project(tmp_path)
    run_of(contract, "one", LORA)
    (tmp_path / "base").rename(tmp_path / "elsewhere")
    with inside(tmp_path):
        lost = command("generate", "one", "the tide")
        assert lost.code == 2
        assert "not on this machine" in lost.err
        monkeypatch.setenv("TRAINWRIGHT_BASE", str(tmp_path / "elsewhere"))
        found = command("generate", "one", "the tide", "--tokens", "3")
    assert found.code == 0, found.err


def keep_pickle(base: Path) -> None:
    (base / "model.safetensors").rename(base / "pytorch_model.bin")


def lose_a_shard(base: Path) -> None:
    (base / "model.safetensors").rename(base / "model-00001-of-00002.safetensors")
    index = {"weight_map": {"a": "model-00001-of-00002.safetensors", "b": "lost.safetensors"}}
    (base / "model.safetensors.index.json").write_text(json.dumps(index))


def do_nothing(_base: Path) -> None:
    pass


@pytest.mark.parametrize(
    ("damage", "settings", "said"),
    [
        (keep_pickle, (LORA,), "are pickles"),
        (lose_a_shard, (LORA,), "1 of 2 files; missing: lost.safetensors"),
        (do_nothing, ("model.adapter={kind: lora, targets: [query]}",), "some of q_proj, k_proj"),
        (do_nothing, (LORA, "model.weights=none"), "beside the weights of a base"),
        (do_nothing, ("model.adapter={kind: lora, rank: 0}",), "model.adapter"),
        (do_nothing, ("model.adapter={kind: prefix}",), "model.adapter"),
        (do_nothing, ("model.adapter={kind: ia3, targets: [query]}",), "some of q_proj, k_proj"),
        (do_nothing, ("model.adapter={kind: prompt_tuning, tokens: 33}",), "vectors of a prompt"),
        (do_nothing, (NF4,), "cannot be trained without an adapter"),
        (do_nothing, (LORA, NF4, "training.compute.compile=on"), "is not compiled"),
    ],
)
def test_an_adapter_that_cannot_be_trained_is_refused(
    tmp_path: Path, damage: Callable[[Path], None], settings: tuple[str, ...], said: str
) -> None:
    contract = write_decoder_project(tmp_path)
    damage(tmp_path / "base")
    with inside(tmp_path):
        ran = command("train", contract.name, *(w for one in settings for w in ("--set", one)))
    assert ran.code == 2, ran.err
    assert said in ran.err
    assert "fix:" in ran.err
    assert not (tmp_path / "runs").exists()


@pytest.mark.extended
def test_a_checkpoint_is_below_two_percent_of_the_base() -> None:
    """Of a Llama of 1.2 billion weights, with AdamW; counted without its weights."""
    from trainwright.contract.sections.model.gpt import Gpt
    from trainwright.contract.sections.model.pretrained import Base
    from trainwright.model.families import network_family
    from trainwright.model.input_shape import TokenShape

    section = Gpt(
        kind="gpt", architecture="base", layers=16, heads=32, kv_heads=8, width=2048, inner=8192,
        context=2048, norm="rms", feed_forward="swiglu", vocabulary=128_256,
        base=Base(config='{"model_type": "llama"}', weights="0"),
        adapter={"kind": "lora", "rank": 8},
    )  # fmt: skip
    family, shape = network_family(section), TokenShape(128_256)
    trained, frozen = (
        family.count_parameters(section, shape),
        family.count_frozen(section, shape),
    )
    assert frozen > 1.2e9
    # Weights, and two moments of AdamW.
    assert 3 * trained < 0.02 * frozen


def preference_rows(folder: Path) -> None:
    draw = np.random.default_rng(5)
    rows: list[dict[str, Any]] = []
    for number in range(40):
        words = " ".join(draw.choice(["tide", "lamp", "rain", "boat"], 3).tolist())
        rows.append({"prompt": f"Say {number}.", "chosen": words, "rejected": f"{words} and so"})
    (folder / "pairs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.mark.extended
def test_preferences_are_measured_from_the_base_without_the_adapter(tmp_path: Path) -> None:
    write_decoder_project(tmp_path)
    preference_rows(tmp_path)
    contract = tmp_path / "preferred.yaml"
    contract.write_text(
        """
name: preferred
task: generation
data: {kind: preferences, path: pairs.jsonl, template: plain, tokenizer: base/tokenizer.json}
model: {kind: gpt, architecture: base, context: 96, rotary_scaling: {kind: linear, factor: 2}}
training: {num_epochs: 2, batch_size: 4, early_stopping: off, optimizer: {learning_rate: 0.01}}
metric: {name: preference_accuracy, target: dummy, resamples: 100}
"""
    )
    for number, adapter in enumerate([(DORA,), (IA3, NF4)]):
        rate = "training.optimizer.learning_rate=1e-30"
        started = train(contract, f"none{number}", *adapter, rate)
        losses = started.signals["loss"]
        assert losses == pytest.approx([np.log(2)] * started.ended.progress.step, abs=1e-5)
    with inside(tmp_path):
        ran = command("train", contract.name, "--set", LORA, "--run", "dpo")
        assert ran.code in (0, 3), ran.err
    assert read_bundle(tmp_path / "runs" / "dpo" / "bundle").scorer.kind == "adapter"


@pytest.mark.extended
@pytest.mark.parametrize(("adapter", "mark"), [(LORA, ".lora_"), (IA3, ".ia3_l.")])
def test_an_encoder_of_texts_keeps_its_head_and_its_adapter(
    adapter: str, mark: str, tmp_path: Path
) -> None:
    contract = write_text_project(tmp_path)
    run = run_of(contract, "one", adapter, "training.optimizer.learning_rate=0.01")
    names = set(load_file(run / "bundle" / "adapter.safetensors"))
    assert all(mark in name or "classifier" in name or "pooler" in name for name in names)
    assert [name for name in names if mark in name]
    assert {"classifier.weight", "classifier.bias"} < names
    assert not [
        one for one in (run / "bundle").iterdir() if str(tmp_path) in one.read_text("latin-1")
    ]
    with inside(tmp_path):
        assert command("weights", "merge", "one", "-o", "out").code == 0
    merged = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path / "out")
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
    lines = [line for line, _ in sentences(20, seed=5)]
    with torch.no_grad():
        logits = merged.eval()(**tokenizer(lines, padding=True, return_tensors="pt")).logits
    predictor = read_bundle(run / "bundle")
    found = predictor.predict_frame(pl.DataFrame({"line": lines}))
    classes = [merged.config.id2label[int(code)] for code in logits.argmax(1)]
    assert found["prediction"].to_list() == classes


@pytest.mark.extended
@pytest.mark.parametrize(
    ("kind", "targets", "count"), [("vit", "", 24), ("resnet", ", targets: [convolution]", 0)]
)
def test_an_encoder_of_images(kind: str, targets: str, count: int, tmp_path: Path) -> None:
    contract = write_image_project(tmp_path, kind)
    adapter = f"model.adapter={{kind: lora, rank: 2{targets}}}"
    refused = {
        "resnet": ("no linear layers", LORA),
        "vit": ("no usual layers of vit", IA3),
    }
    said, wrong = refused[kind]
    with pytest.raises(Mistake, match=said):
        run_of(contract, "none", wrong)
    with pytest.raises(Mistake, match="prompt_tuning"):
        run_of(contract, "none", PROMPT)
    assert not (tmp_path / "runs").exists()
    run = run_of(contract, "one", adapter)
    weights = load_file(run / "bundle" / "adapter.safetensors")
    factors = [name for name in weights if ".lora_" in name]
    assert len(factors) == count or kind == "resnet"
    # Statistics of a batch norm change in a training, and belong to the run.
    assert any("running_mean" in name for name in weights) == (kind == "resnet")
    with inside(tmp_path):
        assert command("weights", "merge", "one", "-o", "out").code == 0
    merged = transformers.AutoModelForImageClassification.from_pretrained(tmp_path / "out").eval()
    network = read_bundle(run / "bundle").scorer.network  # type: ignore[attr-defined]
    pixels = torch.rand(3, 3, 16, 16) * 255
    seen = (pixels - network.pixel_mean) / network.pixel_std
    with torch.no_grad():
        assert (merged(seen).logits - network(pixels)).abs().max() < 1e-5


@pytest.mark.extended
def test_the_towers_of_a_dual_encoder_leave_their_bases_outside_of_checkpoints(
    tmp_path: Path,
) -> None:
    example = Path(__file__).resolve().parents[2] / "examples" / "pairs"
    shutil.copytree(example, tmp_path / "pairs")
    write_image_base(tmp_path / "pairs" / "vit")
    contract = tmp_path / "pairs" / "contract.yaml"
    adapter = "adapter: {kind: lora, rank: 2, dropout: 0.1}"
    settings = (
        f"model.image={{kind: pretrained, architecture: vit, {adapter}}}",
        "data.decoding.size=[16, 16]",
        "training.num_epochs=2",
        "training.checkpointing={save_every_n_steps: 1}",
    )
    whole = train(contract, "whole", *settings)
    with pytest.raises(Killed):
        train(contract, "cut", *settings, dies_at=1)
    assert bits(train(contract, "cut", *settings)) == bits(whole)
    checkpoints = whole.folder.checkpoints
    assert not list(checkpoints.glob("base-*"))
    (*_, last) = sorted(checkpoints.glob("step-*"))
    names = [name for name in load_file(last / "model.safetensors") if name.startswith("image.")]
    kept = ("lora_", "classifier", "pixel_")
    assert [one for one in names if not any(mark in one for mark in kept)] == []
    assert len([one for one in names if "lora_" in one]) == 24
    base = sum(one.numel() for one in load_file(tmp_path / "pairs/vit/model.safetensors").values())
    network = whole.job.model
    trained = sum(one.numel() for one in network.parameters() if one.requires_grad)
    assert whole.ready.plan.memory.weights >= 4 * (trained + 0.9 * base)
    change_base(tmp_path / "pairs" / "vit")
    with pytest.raises(Mistake, match="another base"):
        train(contract, "cut", *settings)


@pytest.mark.extended
def test_without_peft_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    contract = write_decoder_project(tmp_path)
    run_of(contract, "one", LORA)
    hide(monkeypatch, "peft")
    with inside(tmp_path):
        before = tree(tmp_path)
        for words in (
            ("check", contract.name, "--set", LORA),
            ("train", contract.name, "--set", LORA, "--run", "other"),
            ("generate", "one", "the tide"),
        ):
            ran = command(*words)
            assert (ran.code, ran.err.count("pip install 'trainwright[adapters]'")) == (2, 1), words
        assert tree(tmp_path) == before
