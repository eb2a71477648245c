"""Encoders of texts from contract to predictions: what is trained, kept, told and refused."""

from __future__ import annotations

import io
import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import polars as pl
import pytest

torch = pytest.importorskip("torch")
tokenizers = pytest.importorskip("tokenizers")
transformers = pytest.importorskip("transformers")

from safetensors.torch import load_file  # noqa: E402

from contract_runs import train as fit_only  # noqa: E402
from made_texts import sentences, write_base, write_rows, write_text_project  # noqa: E402
from trainwright.contract.sections.model.pretrained import Base  # noqa: E402
from trainwright.core.errors import Mistake  # noqa: E402
from trainwright.core.files import (  # noqa: E402
    hash_file,
    read_json,
)
from trainwright.data.base.token_inputs import TextInputs  # noqa: E402
from trainwright.data.encoders.text_tokenizer import TextReading  # noqa: E402
from trainwright.model.pretrained.sequence_classifier import build_classifier  # noqa: E402
from trainwright.predictor.bundle import read_bundle, read_description  # noqa: E402
from trainwright.predictor.bundle_files import check_predictor  # noqa: E402
from trainwright.run.after.evaluate_rows import evaluate_rows  # noqa: E402
from trainwright.run.after.export_weights import export_model  # noqa: E402
from trainwright.run.prepare.prepare_run import (  # noqa: E402
    Ready,
    make_ready,
)
from trainwright.run.request import Request  # noqa: E402
from trainwright.run.run_context import Result  # noqa: E402
from trainwright.run.screen import StageTimes, StreamScreen  # noqa: E402
from trainwright.run.train import train  # noqa: E402

pytestmark = pytest.mark.torch


@pytest.fixture(autouse=True)
def _offline(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("TRAINWRIGHT_CACHE", str(tmp_path / "kept"))


def ready_for(contract: Path, *overrides: str) -> tuple[Ready, str]:
    said = io.StringIO()
    request = Request(contract, overrides, contract.parent / "runs")
    return make_ready(request, StageTimes(), StreamScreen(said)), said.getvalue()


def run(contract: Path, *overrides: str, name: str = "", resume: bool = False) -> Result:
    runs = contract.parent / "runs"
    return train(Request(contract, overrides, runs, name, resume), StreamScreen(io.StringIO()))


def refused(contract: Path, *overrides: str) -> str:
    with pytest.raises(Mistake) as caught:
        run(contract, *overrides)
    assert not (contract.parent / "runs").exists()
    return str(caught.value)


@pytest.mark.extended
def test_a_contract_trains_an_encoder_and_its_bundle_predicts(tmp_path: Path) -> None:
    contract = write_text_project(tmp_path)
    result = run(contract, "training.num_epochs=15", "model.num_labels=2")
    assert {"dummy", "linear"} <= set(result.evaluation.baselines)
    bundle = result.folder.bundle
    assert {one.name for one in bundle.iterdir()} == {
        *("bundle.json", "config.json", "features.json", "model.safetensors", "network.json"),
        *("profile.json", "signature.json", "target.json", "tokenizer.json"),
    }
    assert not [one for one in bundle.iterdir() if str(tmp_path) in one.read_text("latin-1")]
    lines = [line for line, _ in sentences(40, seed=5)]
    predictor = read_bundle(bundle)
    first = predictor.predict_frame(pl.DataFrame({"line": lines}))
    again = read_bundle(bundle).predict_frame(pl.DataFrame({"line": lines, "more": lines}))
    assert first.equals(again)
    for row in (0, 17, 39):
        (alone,) = predictor.predict_frame(pl.DataFrame({"line": lines[row : row + 1]})).rows()
        assert alone[0] == first.row(row)[0]
        np.testing.assert_allclose(alone[1:], first.row(row)[1:], atol=1e-6)
    right = [
        is_good == (said == "good")
        for (_, is_good), said in zip(sentences(40, seed=5), first["prediction"], strict=True)
    ]
    assert np.mean(right) > 0.9
    with pytest.raises(Mistake, match="line"):
        predictor.predict_frame(pl.DataFrame({"text": lines}))


@pytest.mark.extended
def test_transformers_reads_the_bundle_itself(tmp_path: Path) -> None:
    result = run(write_text_project(tmp_path))
    bundle = result.folder.bundle
    lines = [line for line, _ in sentences(6, seed=5)]
    ours = read_bundle(bundle).predict_frame(pl.DataFrame({"line": lines}))
    model = transformers.AutoModelForSequenceClassification.from_pretrained(bundle)
    tokens = transformers.AutoTokenizer.from_pretrained(bundle)(
        lines, padding=True, return_tensors="pt"
    )
    with torch.no_grad():
        chances = model(tokens["input_ids"], tokens["attention_mask"]).logits.softmax(dim=1)
    assert model.config.id2label == {0: "bad", 1: "good"}
    np.testing.assert_allclose(
        ours.select("probability_bad", "probability_good").to_numpy(), chances.numpy(), atol=1e-6
    )
    weights = tmp_path / "weights.safetensors"
    assert "classifier.weight" in export_model(result.folder, weights).names
    hashes = read_json(bundle / "bundle.json")["files"]
    assert hashes["model.safetensors"]["sha256"] == hash_file(bundle / "model.safetensors")


@pytest.mark.extended
def test_the_record_names_the_base(tmp_path: Path) -> None:
    contract = write_text_project(tmp_path)
    file = tmp_path / "base" / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"_name_or_path": "some/where"}))
    result = run(contract, "training.num_epochs=1")
    assert "some/where" not in result.folder.plan.read_text()
    base = json.loads(result.folder.plan.read_text())["contract"]["model"]["base"]
    assert base["weights"] == hash_file(tmp_path / "base" / "model.safetensors")
    assert base["licence"] == "apache-2.0"
    assert (base["longest"], base["pad"]) == (48, 0)
    assert not {"folder", "tokenizer_json"} & base.keys()
    described = read_description(result.folder.bundle)
    assert "transformers" in described.libraries
    assert [one["name"] for one in described.signature] == ["line"]


@pytest.mark.extended
def test_several_classes_and_numbers(tmp_path: Path) -> None:
    contract = write_text_project(tmp_path)
    lines = [line for line, _ in sentences(150)]
    classes = [("low", "middle", "high")[at % 3] for at in range(150)]
    rows = pl.DataFrame({"line": lines, "label": classes})
    rows.write_csv(tmp_path / "rows.csv")
    result = run(
        contract,
        "training.num_epochs=1",
        "training.loss.class_weights=balanced",
        "training.loss.name=cross_entropy",
        "metric.name=f1_macro",
    )
    scored = read_bundle(result.folder.bundle).predict_frame(rows[:3])
    assert scored.columns == [
        "prediction",
        "probability_high",
        "probability_low",
        "probability_middle",
    ]
    rows = rows.with_columns(label=pl.col("line").str.len_chars() * 1.5)
    rows.write_csv(tmp_path / "rows.csv")
    result = run(
        contract,
        "training.num_epochs=12",
        "metric={name: rmse}",
        "training.average={kind: ema, decay: 0.9}",
    )
    guessed = read_bundle(result.folder.bundle).predict_frame(rows)["prediction"].to_numpy()
    assert np.corrcoef(guessed, rows["label"].to_numpy())[0, 1] > 0.8


@pytest.mark.extended
def test_pairs_have_segments(tmp_path: Path) -> None:
    contract = write_text_project(tmp_path)
    lines = [line for line, _ in sentences(120)]
    rows = {"first": lines, "second": lines[::-1], "label": ["ab"[at % 2] for at in range(120)]}
    pl.DataFrame(rows).write_csv(tmp_path / "rows.csv")
    ready, said = ready_for(contract, "model.max_length=20")
    inputs = TextInputs.of_kind(ready.prepared.train.inputs)
    arrays = inputs.arrays(0, 5)
    assert arrays["input_ids"].shape[1] <= 20
    segments = arrays["token_type_ids"]
    assert set(np.unique(segments)) == {0, 1}
    assert (np.diff(np.where(arrays["attention_mask"] == 1, segments, 2), axis=1) >= 0).all()
    assert "truncated" in said
    run(contract, "training.num_epochs=1")


@pytest.mark.parametrize(("kind", "has_segments"), [("gpt2", False), ("bert", True)])
def test_segments_reach_only_a_model_that_embeds_them(kind: str, has_segments: bool) -> None:
    sizes = {"n_layer": 1, "n_head": 2, "n_embd": 16}
    if kind == "bert":
        sizes = {"num_hidden_layers": 1, "num_attention_heads": 2, "hidden_size": 16}
    config = transformers.AutoConfig.for_model(kind, vocab_size=30, **sizes)
    base = Base(config=json.dumps(config.to_dict()), tokenizer="", longest=16)
    network = build_classifier(base, 2, is_new=True).eval()
    tokens = torch.tensor([[3, 4, 5, 6, 7, 8]])
    mask, segments = torch.ones_like(tokens), torch.tensor([[0, 0, 0, 1, 1, 1]])
    with torch.no_grad():
        alone = network(input_ids=tokens, attention_mask=mask)
        both = network(input_ids=tokens, attention_mask=mask, token_type_ids=segments)
    assert torch.equal(alone, both) is not has_segments


def test_cut_rows_are_counted_and_told(tmp_path: Path) -> None:
    contract = write_text_project(tmp_path)
    whole, said = ready_for(contract)
    assert "truncated" not in said
    cut, said = ready_for(contract, "model.max_length=12")
    parts = ("train", "validation", "test")
    lengths = np.concatenate(
        [TextInputs.of_kind(getattr(whole.prepared, one).inputs).lengths for one in parts]
    )
    lost = (lengths - 12).clip(0)
    line = next(one for one in said.splitlines() if one.startswith("truncated"))
    assert f"{np.count_nonzero(lost)} rows of 160 longer than 12 tokens" in line
    assert f"{lost.sum() / lengths.sum():.2%} of all tokens" in line
    for one in parts:
        inputs = TextInputs.of_kind(getattr(cut.prepared, one).inputs)
        assert inputs.lengths.max() == 12
        ends = inputs.tokens[inputs.starts + inputs.lengths - 1]
        assert set(ends.tolist()) == {3}, "the last token stays the separator"
    assert whole.prepared.version != cut.prepared.version


def test_cut_rows_of_folds_are_counted_once(tmp_path: Path) -> None:
    contract = write_text_project(tmp_path)
    settings = ("data.split={kind: stratified, folds: 2}", "model.max_length=6")
    _, said = ready_for(contract, *settings)
    line = next(one for one in said.splitlines() if one.startswith("truncated"))
    assert " of 160 longer than 6 tokens" in line


@pytest.mark.extended
def test_texts_are_tokenised_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    contract = write_text_project(tmp_path)
    settings = ("data.reading.cache=kept",)
    first, _ = ready_for(contract, *settings)
    from trainwright.data.encoders.text_tokenizer import TextTokenizer

    def never(*_: object) -> None:
        raise AssertionError("tokenised again")

    monkeypatch.setattr(TextTokenizer, "tokenize", never)
    again, _ = ready_for(contract, *settings)
    for part in ("train", "validation", "test"):
        one, other = getattr(first.prepared, part).inputs, getattr(again.prepared, part).inputs
        np.testing.assert_array_equal(one.tokens, other.tokens)
        np.testing.assert_array_equal(one.lengths, other.lengths)
    assert first.prepared.version == again.prepared.version
    with pytest.raises(AssertionError, match="tokenised again"):
        ready_for(contract, *settings, "model.max_length=20")


@pytest.mark.extended
def test_a_step_has_rows_of_similar_length(tmp_path: Path) -> None:
    from trainwright.run.compose.compose_feed import build_feed

    contract = write_text_project(tmp_path)

    def padding(buckets: int) -> float:
        ready, _ = ready_for(contract, f"model.length_buckets={buckets}", "training.batch_size=8")
        feed = build_feed(ready.plan.contract, ready.prepared, torch.device("cpu"))
        masks = [
            one["attention_mask"]
            for _ in range(feed.steps_per_epoch)
            for one in feed.next_step().micro_batches
        ]
        assert all(bool(mask.any(dim=0).all()) for mask in masks), "none is wider than its longest"
        return 1 - sum(int(one.sum()) for one in masks) / sum(one.numel() for one in masks)

    assert padding(4) < 0.6 * padding(1)


@pytest.mark.extended
def test_a_probe_trains_the_head_alone_and_keeps_the_base_once(tmp_path: Path) -> None:
    contract = write_text_project(tmp_path)
    probe = fit_only(contract, "probe", "training.freeze={bert: always}")
    base = transformers.AutoModel.from_pretrained(tmp_path / "base").state_dict()
    for name, tensor in probe.job.model.state_dict().items():
        if name.startswith("bert.") and ".pooler." not in name:
            assert torch.equal(tensor, base[name.removeprefix("bert.")]), name
    sizes = {
        one.parent.name: one.stat().st_size
        for one in (contract.parent / "runs/probe/checkpoints").glob("step-*/*.safetensors")
    }
    (frozen,) = (contract.parent / "runs/probe/checkpoints").glob("base-*.safetensors")
    assert max(sizes.values()) < frozen.stat().st_size / 5


@pytest.mark.extended
def test_unfreezing_in_stages_and_rates_by_layer(tmp_path: Path) -> None:
    contract = write_text_project(tmp_path)
    head = "training.freeze={bert.embeddings: always, bert.encoder: 1}"
    staged = fit_only(contract, "staged", head, "training.optimizer.layer_decay=0.5")
    start = fit_only(contract, "start", head, "training.stop.max_steps=1")
    before, after = start.job.model.state_dict(), staged.job.model.state_dict()
    moved = {name for name in after if not torch.equal(before[name], after[name])}
    assert not any(name.startswith("bert.embeddings") for name in moved)
    assert any(name.startswith("bert.encoder.layer.0") for name in moved)


@pytest.mark.extended
def test_a_model_from_a_configuration_alone(tmp_path: Path) -> None:
    contract = write_text_project(tmp_path)
    write_base(tmp_path / "new", "distilbert", weights=False)
    named = ("model.architecture=new", "model.weights=none")
    ready, _ = ready_for(contract, *named)
    model = ready.plan.contract.model
    assert (model.base.weights, model.block_count) == ("", 2)  # type: ignore[union-attr]
    assert "has no weights" in refused(contract, "model.architecture=new")
    result = run(contract, *named)
    assert result.evaluation


def test_the_plan_counts_the_encoder(tmp_path: Path) -> None:
    ready, _ = ready_for(write_text_project(tmp_path))
    model = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path / "base")
    assert ready.plan.estimate.parameters == sum(one.numel() for one in model.parameters())
    assert ready.plan.memory != "unknown"
    assert ready.plan.memory.activations > 0


@pytest.mark.extended
def test_the_rates_of_a_fine_tuning_are_small(tmp_path: Path) -> None:
    contract = write_text_project(tmp_path)
    short = contract.read_text().split("training:")[0]
    contract.write_text(short)
    training = ready_for(contract)[0].plan.contract.training
    assert (training.optimizer.learning_rate, training.num_epochs) == (5e-5, 3)
    assert training.effective_batch_size == 32
    anew = ready_for(contract, "model.weights=none")[0].plan.contract.training
    assert anew.optimizer.learning_rate == 5e-4


def test_a_run_goes_on_with_its_own_base_only(tmp_path: Path) -> None:
    contract = write_text_project(tmp_path)
    run(contract, "training.num_epochs=1", name="one")
    other = write_base(tmp_path / "other", hidden_size=8)
    for file in other.iterdir():
        (tmp_path / "base" / file.name).write_bytes(file.read_bytes())
    with pytest.raises(Mistake) as caught:
        run(contract, "training.num_epochs=1", name="one", resume=True)
    assert "another base of its model" in str(caught.value)
    assert "put the files of the base back" in str(caught.value)


def keep_pickle(base: Path) -> None:
    (base / "model.safetensors").rename(base / "pytorch_model.bin")


def lose_a_shard(base: Path) -> None:
    (base / "model.safetensors").rename(base / "model-00001-of-00002.safetensors")
    names = {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}
    (base / "model.safetensors.index.json").write_text(json.dumps({"weight_map": names}))


def cut_weights(base: Path) -> None:
    file = base / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-500])


def of_another_size(base: Path) -> None:
    config = json.loads((base / "config.json").read_text())
    (base / "config.json").write_text(json.dumps({**config, "intermediate_size": 20}))


def without_a_head(base: Path) -> None:
    config = {"model_type": "vit", "hidden_size": 16}
    (base / "config.json").write_text(json.dumps(config))


def with_own_code(base: Path) -> None:
    own = {"model_type": "quux", "auto_map": {"AutoConfig": "own.OwnConfig"}}
    (base / "config.json").write_text(json.dumps(own))
    (base / "own.py").write_text("raise SystemExit('run')")


def with_few_embeddings(base: Path) -> None:
    config = json.loads((base / "config.json").read_text())
    (base / "config.json").write_text(json.dumps({**config, "vocab_size": 50}))


def without_a_tokenizer(base: Path) -> None:
    for file in base.glob("token*"):
        file.unlink()


def with_an_adapter(base: Path) -> None:
    (base / "adapter_config.json").write_text(json.dumps({"base_model_name_or_path": "other"}))


def without_a_configuration(base: Path) -> None:
    (base / "config.json").unlink()


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (keep_pickle, "are pickles"),
        (lose_a_shard, "1 of 2 files; missing: model-00002-of-00002.safetensors"),
        (cut_weights, "are damaged"),
        (of_another_size, "are not those of its config.json"),
        (without_a_head, "vit has no head"),
        (with_own_code, "code of its own, which is never run"),
        (with_few_embeddings, "tokens that its model does not know"),
        (without_a_tokenizer, "the base has no tokenizer"),
        (with_an_adapter, "is an adapter"),
        (without_a_configuration, "no config.json"),
    ],
)
def test_a_broken_base_is_refused(
    tmp_path: Path, damage: Callable[[Path], None], said: str
) -> None:
    contract = write_text_project(tmp_path)
    damage(tmp_path / "base")
    message = refused(contract)
    assert said in message
    assert "model.architecture" in message
    assert "fix:" in message


def test_a_base_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    contract = write_text_project(tmp_path)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hub"))
    message = refused(contract, "model.architecture=someone/some-encoder")
    assert "HF_HUB_OFFLINE switches the hub off" in message
    assert "hf download someone/some-encoder" in message
    assert "no such folder" in refused(contract, "model.architecture=./nowhere")


@pytest.mark.extended
def test_a_base_of_the_hub_is_read_from_its_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    contract = write_text_project(tmp_path)
    repository = tmp_path / "hub" / "models--someone--tiny"
    commit = "a" * 40
    (repository / "refs").mkdir(parents=True)
    (repository / "refs" / "main").write_text(commit)
    write_base(repository / "snapshots" / commit)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    settings = ("model.architecture=someone/tiny", "training.num_epochs=1")
    ready, _ = ready_for(contract, *settings)
    assert ready.plan.contract.model.base.commit == commit  # type: ignore[union-attr]
    run(contract, *settings, name="one")
    later = "b" * 40
    (repository / "refs" / "main").write_text(later)
    base = shutil.copytree(repository / "snapshots" / commit, repository / "snapshots" / later)
    (base / "README.md").write_text("---\nlicense: mit\n---\n")
    run(contract, *settings, name="one", resume=True)
    named = f"model.revision={later}"
    run(contract, *settings, named, name="one", resume=True)


def test_other_columns_are_refused(tmp_path: Path) -> None:
    contract = write_text_project(tmp_path)
    rows = pl.read_csv(tmp_path / "rows.csv")
    rows = rows.with_columns(pl.Series("size", np.arange(160) % 13 * 1.5))
    rows.write_csv(tmp_path / "rows.csv")
    assert "needs one column of texts" in refused(contract)
    text = contract.read_text()
    kind = "target: label, columns: {line: {kind: text}}"
    contract.write_text(text.replace("target: label", kind))
    message = refused(contract)
    assert "reads no other columns" in message
    assert "exclude as well: size" in message
    ready_for(contract, "data.exclude=[size]")
    assert "needs one column of texts" in refused(contract, "data.exclude=[line]")
    assert "change it to 2" in refused(contract, "data.exclude=[size]", "model.num_labels=5")
    limit = refused(contract, "data.exclude=[size]", "model.max_length=500")
    assert "at most 48 tokens" in limit


@pytest.mark.extended
@pytest.mark.parametrize(("columns", "most"), [(1, 3), (2, 4)])
def test_a_length_without_room_for_a_text_is_refused(
    tmp_path: Path, columns: int, most: int
) -> None:
    contract = write_text_project(tmp_path)
    file = tmp_path / "base" / "tokenizer.json"
    content = json.loads(file.read_text())
    for segment, form in enumerate(("single", "pair")):
        separator = {"SpecialToken": {"id": "[SEP]", "type_id": segment}}
        content["post_processor"][form].append(separator)
    file.write_text(json.dumps(content))
    rows = pl.read_csv(tmp_path / "rows.csv")
    if columns == 2:
        rows.with_columns(other=pl.col("line").str.reverse()).write_csv(tmp_path / "rows.csv")
    kinds = "data.columns={line: {kind: text}, other: {kind: text}}"
    settings = (kinds,) if columns == 2 else ()
    message = refused(contract, *settings, f"model.max_length={most}")
    assert "model.max_length" in message
    assert f"at least {most + 1} tokens" in message
    ready, _ = ready_for(contract, *settings, f"model.max_length={most + 1}")
    assert TextInputs.of_kind(ready.prepared.train.inputs).lengths.max() == most + 1


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"num_attention_heads": 3}, "does not fit its architecture"),
        ({"hidden_act": "quux"}, "does not fit its architecture"),
        ({"intermediate_size": -24}, "does not fit its architecture"),
        ({"hidden_size": 2**62}, "does not fit its architecture"),
        ({"num_hidden_layers": 5}, "too many layers"),
        ({"decoder_layers": 5}, "too many layers"),
    ],
)
def test_a_configuration_that_no_network_has_is_refused(
    tmp_path: Path, changes: dict[str, Any], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """None of more than four layers, here."""
    contract = write_text_project(tmp_path)
    monkeypatch.setattr("trainwright.model.pretrained.hub_files.MOST_LAYERS", 4)
    file = tmp_path / "base" / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))
    for weights in ("pretrained", "none"):
        message = refused(contract, f"model.weights={weights}")
        assert said in message
        assert "model.architecture" in message


@pytest.mark.extended
@pytest.mark.parametrize("form", [{"return_dict": False}, {"torchscript": True}])
def test_a_configuration_does_not_change_the_outputs(tmp_path: Path, form: dict[str, bool]) -> None:
    contract = write_text_project(tmp_path)
    file = tmp_path / "base" / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | form))
    fit_only(contract, "one", "training.stop.max_steps=1")


@pytest.mark.extended
def test_a_stored_encoder_is_tried_with_padding(tmp_path: Path) -> None:
    result = run(write_text_project(tmp_path), "training.num_epochs=1")
    predictor = read_bundle(result.folder.bundle)
    check_predictor(predictor)
    features = predictor.features
    tokenizer = replace(features.tokenizer, pad=100_000)  # type: ignore[attr-defined]
    spoilt = replace(features, reading=TextReading(tokenizer))  # type: ignore[call-arg]
    with pytest.raises((IndexError, RuntimeError)):
        check_predictor(replace(predictor, features=spoilt))


def test_a_tokenizer_that_gives_unknown_tokens_is_refused(tmp_path: Path) -> None:
    contract = write_text_project(tmp_path)
    file = tmp_path / "base" / "tokenizer.json"
    content = json.loads(file.read_text())
    content["post_processor"]["special_tokens"]["[SEP]"]["ids"] = [70_000]
    file.write_text(json.dumps(content))
    message = refused(contract)
    assert "the tokenizer of the base" in message
    assert "model.architecture" in message


class PanicException(BaseException):
    """As the tokenizers library raises it: no `Exception`."""


def panics(*_: object, **__: object) -> None:
    raise PanicException("no entry found for key")


def panics_at_its_first_text(content: str, max_length: int) -> object:
    tokenizer = tokenizers.Tokenizer.from_str(content)
    return mock.Mock(wraps=tokenizer, encode_batch=panics)


@pytest.mark.parametrize(
    ("place", "fails"),
    [
        ("transformers.AutoTokenizer.from_pretrained", panics),
        ("trainwright.data.encoders.text_tokenizer._opened", panics_at_its_first_text),
    ],
    ids=["read", "used"],
)
def test_a_tokenizer_whose_library_panics_is_refused(
    tmp_path: Path, place: str, fails: Callable[..., object], monkeypatch: pytest.MonkeyPatch
) -> None:
    contract = write_text_project(tmp_path)
    monkeypatch.setattr(place, fails)
    message = refused(contract)
    assert "the tokenizer of the base" in message
    assert "no entry found for key" in message
    assert "model.architecture" in message


def test_a_configuration_names_no_kernel_and_no_code(tmp_path: Path) -> None:
    contract = write_text_project(tmp_path)
    file = tmp_path / "base" / "config.json"
    own = {
        "auto_map": {"AutoConfig": "own.OwnConfig"},
        "_attn_implementation": "kernels-community/own",
        "quantization_config": {"quant_method": "own"},
    }
    file.write_text(json.dumps(json.loads(file.read_text()) | own))
    (tmp_path / "base" / "own.py").write_text("raise SystemExit('run')")
    made = fit_only(contract, "own", "training.stop.max_steps=1").job.model
    assert made.config._attn_implementation == "sdpa"


def test_a_configuration_names_no_other_weights(tmp_path: Path) -> None:
    contract = write_text_project(tmp_path)
    torch.manual_seed(1)
    config = transformers.AutoConfig.from_pretrained(tmp_path / "base")
    transformers.AutoModel.from_config(config).save_pretrained(tmp_path / "other")
    base = tmp_path / "base"
    (base / "other.safetensors").write_bytes((tmp_path / "other/model.safetensors").read_bytes())
    file = base / "config.json"
    named = {"transformers_weights": "other.safetensors"}
    file.write_text(json.dumps(json.loads(file.read_text()) | named))
    frozen = ("training.freeze={bert: always}", "training.stop.max_steps=1")
    made = fit_only(contract, "one", *frozen).job.model.state_dict()
    hashed = load_file(base / "model.safetensors")
    name = "embeddings.word_embeddings.weight"
    assert torch.equal(made[f"bert.{name}"], hashed[name])


@pytest.mark.extended
@pytest.mark.parametrize(
    "setting",
    [
        "training.mixed_precision=bf16",
        "training.memory.activation_checkpointing=full",
        "data.num_workers=2",
        "data.sampling={kind: balanced}",
        "data.shuffle=false",
    ],
)
def test_what_holds_of_every_network(tmp_path: Path, setting: str) -> None:
    contract = write_text_project(tmp_path)
    losses = fit_only(contract, "one", setting, "training.num_epochs=4").signals["loss"]
    assert np.isfinite(losses).all()
    assert losses[-1] < losses[0]


@pytest.mark.extended
def test_activation_checkpointing_and_workers_change_no_bit(tmp_path: Path) -> None:
    contract = write_text_project(tmp_path)
    plain = fit_only(contract, "plain", "training.num_epochs=1").signals["loss"]
    for name, setting in (
        ("again", "training.memory.activation_checkpointing=full"),
        ("workers", "data.num_workers=2"),
    ):
        assert fit_only(contract, name, "training.num_epochs=1", setting).signals["loss"] == plain


@pytest.mark.extended
def test_folds_seeds_and_labelled_rows(tmp_path: Path) -> None:
    contract = write_text_project(tmp_path)
    folds = run(contract, "data.split={kind: stratified, folds: 2}", "training.num_epochs=1")
    assert folds.evaluation.rows == 160
    result = run(contract, "training.seeds=2", "training.num_epochs=12")
    write_rows(tmp_path / "later.csv", 30)
    later = evaluate_rows(result.folder, str(tmp_path / "later.csv"))
    assert later.evaluation.metrics["accuracy"].value > 0.9
