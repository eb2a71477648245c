"""Adapters of the encoders of a retrieval: what bundles and checkpoints hold, and other bases."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

import trainwright as tw

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
pytest.importorskip("peft")

from safetensors.torch import load_file, save_file  # noqa: E402

from canary import Killed  # noqa: E402
from contract_runs import bits, train  # noqa: E402
from made_image_bases import write_image_base  # noqa: E402
from made_texts import write_base  # noqa: E402
from trainwright.contract.sections.model.bi_encoder import BiEncoder  # noqa: E402
from trainwright.contract.sections.model.dual_encoder import DualEncoder  # noqa: E402
from trainwright.contract.sections.model.pretrained import (  # noqa: E402
    Base,
    Pretrained,
    TowerSection,
)
from trainwright.core.errors import Mistake  # noqa: E402
from trainwright.core.files import (  # noqa: E402
    hash_file,
    read_json,
)
from trainwright.model.families import network_family  # noqa: E402
from trainwright.model.input_shape import PairShape, TextPairShape  # noqa: E402
from trainwright.predictor.bundle import read_bundle, write_bundle  # noqa: E402
from trainwright.run.after.evaluate_rows import predict_file  # noqa: E402
from trainwright.tracking.run_folder import RunFolder  # noqa: E402

pytestmark = pytest.mark.torch

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
LORA = "adapter: {kind: lora, rank: 2, dropout: 0.1}"
EYE = f"model.image={{kind: pretrained, architecture: eye, {LORA}}}"
READER = f"model.text={{kind: pretrained, architecture: reader, {LORA}}}"
WHOLE_READER = "model.text={kind: pretrained, architecture: reader}"
SHORT = (
    "training.num_epochs=2",
    "training.batch_size=20",
    "training.effective_batch_size=40",
    "training.optimizer.learning_rate=0.01",
    "training.checkpointing={save_every_n_steps: 1}",
    "metric={name: auto, target: dummy, resamples: 100}",
    "data.num_workers=0",
)
SMALL = ("data.decoding.size=[16, 16]", *SHORT)


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.delenv("TRAINWRIGHT_BASE", raising=False)


def copied(folder: Path, example: str) -> Path:
    """The contract of an example, with its bases."""
    shutil.copytree(EXAMPLES / example, folder, dirs_exist_ok=True)
    write_image_base(folder / "eye")
    write_base(folder / "reader")
    return folder / "contract.yaml"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Images and captions, and a run `one` with an adapter in both encoders."""
    contract = copied(tmp_path_factory.mktemp("towers") / "pairs", "pairs")
    runs = contract.parent / "runs"
    tw.train(contract, runs=runs, name="one", overrides=[EYE, READER, *SMALL])
    return contract.parent


def change(base: Path) -> None:
    file = base / "model.safetensors"
    save_file({k: v + 1e-3 for k, v in load_file(file).items()}, file, metadata={"format": "pt"})


def embeddings(project: Path, run: str = "one") -> np.ndarray:
    table = project / "captions.csv"
    return predict_file(RunFolder(project / "runs" / run), table).frame.drop("image").to_numpy()


@pytest.mark.extended
def test_the_bundle_holds_the_adapters_and_names_both_bases(project: Path) -> None:
    bundle = project / "runs" / "one" / "bundle"
    assert read_json(bundle / "bundle.json")["kind"] == "adapter"
    held = load_file(bundle / "adapter.safetensors")
    own = ("lora_", "classifier.", "pooler.", "log_scale", "pixel_")
    assert [name for name in held if not any(mark in name for mark in own)] == []
    assert {name.partition(".")[0] for name in held} == {"image", "text", "log_scale"}
    about = read_json(bundle / "network.json")
    assert about["base_folders"] == {"image": "../../../eye", "text": "../../../reader"}
    for side, base in (("image", "eye"), ("text", "reader")):
        named = about["model"][side]["base"]["weights"]
        assert named == hash_file(project / base / "model.safetensors")
    # The network that is read is the one that was trained: the last checkpoint beside the bases.
    network = read_bundle(bundle).scorer.network  # type: ignore[attr-defined]
    (*_, last) = sorted((project / "runs" / "one" / "checkpoints").glob("step-*"))
    kept = load_file(last / "model.safetensors")
    assert set(kept) == set(held)
    state = network.state_dict()
    for side, base in (("image.vit", "eye"), ("text.bert", "reader")):
        theirs = transformers.AutoModel.from_pretrained(project / base).state_dict()
        compared = 0
        for name, tensor in theirs.items():
            path, _, leaf = f"{side}.{name}".rpartition(".")
            for place in (f"{path}.{leaf}", f"{path}.base_layer.{leaf}"):
                if place in state and place not in held:
                    assert torch.equal(state[place], tensor), name
                    compared += 1
        # The pooler of a BERT is trained with its head, and a ViT with a head of classes has none.
        assert compared == sum("pooler" not in name for name in theirs)


@pytest.mark.extended
def test_all_of_it_may_move_together(project: Path, tmp_path: Path) -> None:
    shutil.copytree(project, tmp_path / "moved")
    before = embeddings(project)
    np.testing.assert_array_equal(embeddings(tmp_path / "moved"), before)
    # Bases that lie elsewhere are found among the folders that are named.
    (tmp_path / "moved" / "eye").rename(tmp_path / "eye")
    (tmp_path / "moved" / "reader").rename(tmp_path / "reader")
    with pytest.raises(Mistake, match="not on this machine"):
        embeddings(tmp_path / "moved")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRAINWRIGHT_BASE", f"{tmp_path / 'reader'}:{tmp_path / 'eye'}")
        np.testing.assert_array_equal(embeddings(tmp_path / "moved"), before)
        patch.setenv("TRAINWRIGHT_BASE", str(tmp_path / "reader"))
        with pytest.raises(Mistake, match="belongs to another base"):
            embeddings(tmp_path / "moved")


@pytest.mark.parametrize("base", ["eye", "reader"])
def test_another_base_is_refused(project: Path, tmp_path: Path, base: str) -> None:
    shutil.copytree(project, tmp_path / "changed")
    change(tmp_path / "changed" / base)
    with pytest.raises(Mistake, match="belongs to another base") as raised:
        embeddings(tmp_path / "changed")
    assert "TRAINWRIGHT_BASE" in raised.value.problems[0].fix


@pytest.mark.extended
def test_a_whole_encoder_beside_an_adapted_one_is_in_the_bundle(tmp_path: Path) -> None:
    contract = copied(tmp_path / "pairs", "pairs")
    runs = contract.parent / "runs"
    tw.train(contract, runs=runs, name="one", overrides=[EYE, WHOLE_READER, *SMALL])
    before = embeddings(contract.parent)
    shutil.rmtree(contract.parent / "reader")
    np.testing.assert_array_equal(embeddings(contract.parent), before)
    held = load_file(runs / "one" / "bundle" / "adapter.safetensors")
    assert "text.bert.embeddings.word_embeddings.weight" in held
    assert not [name for name in held if "base_layer" in name]


def test_a_bundle_of_before_is_whole_and_still_read(project: Path, tmp_path: Path) -> None:
    bundle = project / "runs" / "one" / "bundle"
    predictor = read_bundle(bundle)
    with pytest.MonkeyPatch.context() as patch:
        # Bundles of encoders with adapters were written so.
        patch.setattr(TowerSection, "has_adapter", False)
        write_bundle(predictor, tmp_path / "old", {})
    assert read_json(tmp_path / "old" / "bundle.json")["kind"] == "network"
    again = read_bundle(tmp_path / "old").scorer.network  # type: ignore[attr-defined]
    state = predictor.scorer.network.state_dict()  # type: ignore[attr-defined]
    assert all(torch.equal(one, state[name]) for name, one in again.state_dict().items())


@pytest.mark.extended
def test_a_reader_of_passages_is_resumed_kept_and_refused_alike(tmp_path: Path) -> None:
    contract = copied(tmp_path / "texts", "text_pairs")
    settings = (READER, *SHORT)
    whole = train(contract, "whole", *settings)
    last = max(whole.ended.progress.step, 2)
    with pytest.raises(Killed):
        train(contract, "cut", *settings, dies_at=int(np.random.default_rng(3).integers(1, last)))
    assert bits(train(contract, "cut", *settings)) == bits(whole)
    checkpoints = whole.folder.checkpoints
    assert not list(checkpoints.glob("base-*"))
    (*_, newest) = sorted(checkpoints.glob("step-*"))
    assert not [name for name in load_file(newest / "model.safetensors") if "base_layer" in name]
    tw.train(contract, runs=contract.parent / "runs", name="one", overrides=list(settings))
    bundle = contract.parent / "runs" / "one" / "bundle"
    assert all(
        any(mark in name for mark in ("lora_", "classifier.", "pooler.", "log_scale"))
        for name in load_file(bundle / "adapter.safetensors")
    )
    change(contract.parent / "reader")
    with pytest.raises(Mistake, match="belongs to another base"):
        read_bundle(bundle)
    with pytest.raises(Mistake, match="another base"):
        train(contract, "cut", *settings)


def test_the_rate_is_that_of_what_is_trained() -> None:
    base = Base(config="{}", weights="0")
    adapted = Pretrained(architecture="a", base=base, adapter={"kind": "lora"})
    whole, new = (
        Pretrained(architecture="a", base=base),
        Pretrained(architecture="a", base=base, weights="none"),
    )
    rates = []
    for image, text in ((adapted, adapted), (adapted, whole), (whole, new), (new, new)):
        section = DualEncoder(kind="dual_encoder", image=image, text=text)
        found = network_family(section).usual_training(section)
        rates.append(found.get("learning_rate", ("usual", ""))[0])
    assert rates == [5e-4, 1e-4, 1e-4, "usual"]


@pytest.mark.extended
def test_a_bundle_is_below_two_percent_of_its_bases() -> None:
    """Of a ViT-B and a BERT-B, counted without their weights."""
    adapter = {"kind": "lora", "rank": 8}
    vit = transformers.ViTConfig(image_size=224).to_json_string()
    bert = transformers.BertConfig().to_json_string()
    text = Pretrained(
        architecture="b", base=Base(config=bert, weights="0"), adapter=adapter, num_labels=128
    )
    image = Pretrained(
        architecture="a",
        base=Base(config=vit, weights="0", reads="images", image_size=(224, 224)),
        adapter=adapter,
        num_labels=128,
    )
    dual = DualEncoder(kind="dual_encoder", image=image, text=text)
    pair = PairShape((3, 224, 224), (0.0,) * 3, (1.0,) * 3, 30_522, 16, 256)
    bi = BiEncoder(kind="bi_encoder", text=text)
    texts = TextPairShape(30_522, 16, 0, 256)
    for section, shape, least in ((dual, pair, 190e6), (bi, texts, 105e6)):
        family = network_family(section)
        frozen = family.count_frozen(section, shape)
        assert frozen > least
        assert family.count_parameters(section, shape) < 0.02 * frozen
