"""Decoders that start from a base: what is trained, resumed, written and refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from safetensors.torch import load_file, save_file  # noqa: E402

from command import command, inside  # noqa: E402
from made_decoders import write_decoder, write_decoder_project  # noqa: E402
from stopped_runs import cut_run_of, run_of  # noqa: E402
from trainwright.core.files import (  # noqa: E402
    hash_file,
    read_json,
)
from trainwright.data.base.token_inputs import TokenInputs  # noqa: E402
from trainwright.predictor.bundle import read_bundle  # noqa: E402

pytestmark = pytest.mark.torch


@pytest.fixture(autouse=True)
def _offline(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("TRAINWRIGHT_CACHE", str(tmp_path / "kept"))


def refused(contract: Path, *overrides: str) -> str:
    with inside(contract.parent):
        options = [word for one in overrides for word in ("--set", one)]
        ran = command("train", contract.name, *options)
    assert ran.code == 2, ran.err
    assert not (contract.parent / "runs").exists()
    return ran.err


def test_a_run_starts_from_the_base_and_its_model_opens_in_transformers(tmp_path: Path) -> None:
    contract = write_decoder_project(tmp_path)
    one = run_of(contract, "one", "training.optimizer.learning_rate=1e-30")
    plan = read_json(one / "plan.json")["contract"]["model"]
    assert plan["base"]["weights"] == hash_file(tmp_path / "base" / "model.safetensors")
    assert plan["layers"] == 2
    assert plan["kv_heads"] == 2
    # With a rate of nearly 0 the model is the base.
    with inside(tmp_path):
        ran = command("weights", "export", "one", "--to", "huggingface", "-o", "out")
    assert ran.code == 0, ran.err
    before = load_file(tmp_path / "base" / "model.safetensors")
    after = load_file(tmp_path / "out" / "model.safetensors")
    assert set(after) == set(before)
    assert all(torch.allclose(after[name], before[name], atol=1e-6) for name in before)
    tokens = torch.randint(0, 280, (2, 32), generator=torch.Generator().manual_seed(0))
    opened = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "out").eval()
    network = read_bundle(one / "bundle").scorer.network  # type: ignore[attr-defined]
    assert (opened(tokens).logits - network(tokens)).abs().max() < 1e-5
    kept = (tmp_path / "out" / "tokenizer.json").read_text()
    assert kept == (tmp_path / "base" / "tokenizer.json").read_text()


def test_a_cut_run_goes_on_to_the_same_bits_and_needs_the_same_base(tmp_path: Path) -> None:
    contract = write_decoder_project(tmp_path)
    whole = run_of(contract, "whole")
    cut_run_of(contract, 3)
    file = tmp_path / "base" / "model.safetensors"
    original = file.read_bytes()
    weights = load_file(file)
    save_file({k: v + 1e-3 for k, v in weights.items()}, file, metadata={"format": "pt"})
    with inside(tmp_path):
        ran = command("resume", "cut")
    assert ran.code == 2
    assert "another base of its model" in ran.err
    file.write_bytes(original)
    resumed = run_of(contract, "cut", resume=True)
    assert hash_file(resumed / "bundle" / "network.safetensors") == hash_file(
        whole / "bundle" / "network.safetensors"
    )


def test_random_weights_of_a_base_take_any_vocabulary(tmp_path: Path) -> None:
    contract = write_decoder_project(tmp_path)
    own = ("model.weights=none", "data.vocabulary=characters", "data.tokenizer=''")
    folder = run_of(contract, "own", *own)
    scorer = read_bundle(folder / "bundle").scorer
    few = TokenInputs.of_kind(read_bundle(folder / "bundle").features.trial_inputs()[0])
    assert scorer.score(few).shape == (1, 1)


def change_config(**values: object) -> Callable[[Path], None]:
    def change(base: Path) -> None:
        config = json.loads((base / "config.json").read_text())
        (base / "config.json").write_text(json.dumps({**config, **values}))

    return change


def keep_pickle(base: Path) -> None:
    (base / "model.safetensors").rename(base / "pytorch_model.bin")


def lose_a_weight(base: Path) -> None:
    weights = load_file(base / "model.safetensors")
    del weights["model.layers.1.mlp.up_proj.weight"]
    save_file(weights, base / "model.safetensors", metadata={"format": "pt"})


def lose_a_shard(base: Path) -> None:
    (base / "model.safetensors").rename(base / "model-00001-of-00002.safetensors")
    index = {"weight_map": {"a": "model-00001-of-00002.safetensors", "b": "lost.safetensors"}}
    (base / "model.safetensors.index.json").write_text(json.dumps(index))


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (keep_pickle, "are pickles"),
        (lose_a_shard, "1 of 2 files; missing: lost.safetensors"),
        (lose_a_weight, "a weight of the base is missing"),
        (change_config(model_type="mamba"), "no place for the weights of 'mamba'"),
        (change_config(intermediate_size=80), "not those of its config.json"),
        (change_config(num_key_value_heads=3), "not a multiple of model.kv_heads"),
        (change_config(head_dim=64), "no head_dim of 64"),
        (change_config(hidden_act="relu"), "no hidden_act of 'relu'"),
        (change_config(num_hidden_layers="two"), "does not fit its architecture"),
        (change_config(num_hidden_layers=5), "too many layers"),
        (change_config(rope_parameters={"rope_type": "yarn", "factor": 2}), "'yarn'"),
        (change_config(vocab_size=270), "tokens that the model does not know"),
        (lambda base: (base / "config.json").unlink(), "no config.json"),
        (lambda base: (base / "tokenizer.json").write_text("{}"), "the tokenizer cannot be read"),
    ],
)
def test_a_broken_base_is_refused(
    tmp_path: Path,
    damage: Callable[[Path], object],
    said: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """So is one of more than four layers, here."""
    contract = write_decoder_project(tmp_path)
    monkeypatch.setattr("trainwright.model.pretrained.hub_files.MOST_LAYERS", 4)
    damage(tmp_path / "base")
    message = refused(contract)
    assert said in message
    assert "fix:" in message


@pytest.mark.parametrize(
    ("overrides", "said", "fix"),
    [
        (("model.layers=3",), "model.layers is not that of the base", "remove layers"),
        (("model.context=128",), "at most 64", "factor: 2"),
        (
            ("data.vocabulary=characters", "data.tokenizer=''"),
            "need its own tokenizer",
            "data.tokenizer: base/tokenizer.json",
        ),
        (("model.architecture=nowhere/at/all",), "no such folder", "fix:"),
    ],
)
def test_a_contract_that_contradicts_its_base_is_refused(
    tmp_path: Path, overrides: tuple[str, ...], said: str, fix: str
) -> None:
    message = refused(write_decoder_project(tmp_path), *overrides)
    assert said in message
    assert fix in message


def test_learned_positions_are_no_longer_than_the_base(tmp_path: Path) -> None:
    contract = write_decoder_project(tmp_path)
    shape = {"n_embd": 16, "n_layer": 1, "n_head": 2, "n_positions": 32, "vocab_size": 288}
    write_decoder("gpt2", shape, tmp_path / "base")
    message = refused(contract, "model.context=33")
    assert "at most 32" in message
    assert "there is no vector for a later position" in message


@pytest.mark.extended
def test_windows_are_longer_with_scaled_positions(tmp_path: Path) -> None:
    contract = write_decoder_project(tmp_path)
    scaled = "model.rotary_scaling={kind: linear, factor: 2}"
    folder = run_of(contract, "long", "model.context=128", scaled)
    assert read_json(folder / "plan.json")["contract"]["model"]["context"] == 128
    with inside(tmp_path):
        said = command("check", contract.name, "--set", "model.context=128", "--set", scaled).err
    assert "windows of 128 tokens are longer than the 64 positions of the base" in said


@pytest.mark.extended
def test_other_shapes_are_no_folder_of_transformers(tmp_path: Path) -> None:
    contract = write_decoder_project(tmp_path)
    contract.write_text(contract.read_text().replace("architecture: base", "norm: rms"))
    run_of(contract, "own")
    with inside(tmp_path):
        ran = command("weights", "export", "own", "--to", "huggingface")
    assert ran.code == 2
    assert "no architecture of transformers has the shape" in ran.err
    assert not (tmp_path / "huggingface").exists()
