"""`training.teacher.hidden`: a network that learns what another one has inside."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

torch = pytest.importorskip("torch")

from safetensors.numpy import load_file  # noqa: E402
from torch import nn  # noqa: E402

import trainwright as tw  # noqa: E402
from command import command, inside, stopped_at  # noqa: E402
from guide import GUIDE, blocks  # noqa: E402
from made_data import make_images  # noqa: E402
from trainwright.core.errors import Mistake  # noqa: E402
from trainwright.core.files import (  # noqa: E402
    hash_file,
    read_json,
)
from trainwright.model.row_state import PROJECTION  # noqa: E402
from trainwright.predictor.bundle import read_bundle  # noqa: E402
from trainwright.predictor.network_scorer import NetworkScorer  # noqa: E402

pytestmark = pytest.mark.torch

MODELS: dict[str, dict[str, Any]] = {
    "mlp": {"kind": "mlp", "hidden": [6]},
    "tabular_resnet": {"kind": "tabular_resnet", "width": 8, "blocks": 1},
    "ft_transformer": {"kind": "ft_transformer", "width": 8, "heads": 2, "layers": 1},
    "boosting": {"kind": "boosting", "max_trees": 5},
}


def contract_of(folder: Path, kind: str, **teacher: Any) -> dict[str, Any]:
    taught = {"teacher": {"bundle": str(folder / "runs/teacher"), **teacher}} if teacher else {}
    few = {} if kind == "boosting" else {"num_epochs": 3, "batch_size": 32}
    return {
        "task": "classification",
        "data": {"path": str(folder / "rows.csv"), "target": "label", "positive": "b"},
        "model": MODELS[kind],
        "metric": {"name": "accuracy", "target": "dummy", "resamples": 100},
        "training": {**few, **taught},
    }


@pytest.fixture(scope="module")
def taught(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with rows and a teacher whose state has 12 numbers, `runs/teacher`."""
    folder = tmp_path_factory.mktemp("taught")
    draw = np.random.default_rng(0)
    x, z = draw.normal(size=(2, 400))
    rows = pl.DataFrame({"x": x, "z": z, "label": np.where(x * z > 0, "b", "a")})
    rows.write_csv(folder / "rows.csv")
    contract = contract_of(folder, "mlp")
    contract["model"] = {"kind": "mlp", "hidden": [16, 12]}
    tw.train(contract, runs=folder / "runs", name="teacher")
    return folder


def test_a_run_that_is_cut_has_the_weights_of_a_whole_one(taught: Path, tmp_path: Path) -> None:
    """The matrix to the teacher's width is in the checkpoints, and is no part of the bundle."""
    contract = contract_of(taught, "mlp", temperature=2.0, hidden={"weight": 2.0})
    (tmp_path / "c.yaml").write_text(json.dumps(contract))
    cut = random.Random().randint(1, 20)
    with inside(tmp_path):
        whole = command("train", "c.yaml", "--run", "whole")
        assert whole.code in (0, 3), whole.err
        assert "and its hidden states" in whole.err
        assert stopped_at(cut, "train", "c.yaml", "--run", "cut").code == 75, f"step {cut}"
        assert command("train", "c.yaml", "--run", "cut", "--resume").code in (0, 3)
        found = [Path("runs", run, "bundle/network.safetensors") for run in ("whole", "cut")]
        assert hash_file(found[0]) == hash_file(found[1]), f"cut at step {cut}"
        assert not [name for name in load_file(found[0]) if PROJECTION in name]
        kept = next(Path("runs/whole/checkpoints").glob("step-*/*.safetensors"))
        with_matrix = [
            file for file in kept.parent.glob("*.safetensors") if _has_projection(load_file(file))
        ]
        assert with_matrix, "the checkpoint holds the matrix"
        step = str(int(kept.parent.name.removeprefix("step-")))
        asked = ("weights", "export", "whole", "--step", step, "-o", "w.safetensors")
        exported = command(*asked)
        assert exported.code == 0, exported.err
        assert load_file("w.safetensors").keys() == load_file(found[0]).keys()


def _has_projection(tensors: dict[str, Any]) -> bool:
    return any(PROJECTION in name for name in tensors)


def test_states_are_computed_once_and_are_what_the_teachers_head_reads(
    taught: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRAINWRIGHT_CACHE", str(tmp_path / "kept"))
    contract = contract_of(taught, "tabular_resnet", hidden={"distance": "mse"})
    ready = tw.prepare(contract).ready
    states = ready.prepared.train.teacher_states
    asked = pl.read_csv(taught / "rows.csv")[ready.prepared.train.rows.tolist()]
    teacher = read_bundle(taught / "runs/teacher/bundle")
    encoded = {name: torch.from_numpy(one) for name, one in teacher.encode(asked).items()}
    assert isinstance(teacher.scorer, NetworkScorer)
    network = teacher.scorer.network
    body = network.get_submodule("body")
    assert isinstance(body, nn.Sequential)
    columns = network.get_submodule("columns")(encoded["numeric"], encoded["categories"])
    expected = body[:-1](columns)
    assert states.shape == (len(asked), 12)
    np.testing.assert_allclose(states, expected.numpy(), rtol=1e-5, atol=1e-6)
    (file,) = Path(tmp_path, "kept").rglob("teacher_states.npy")
    before = file.stat().st_mtime_ns
    again = tw.prepare(contract).ready
    assert again.prepared.version == ready.prepared.version
    assert file.stat().st_mtime_ns == before
    del contract["training"]["teacher"]["hidden"]
    assert tw.prepare(contract).ready.prepared.version != ready.prepared.version


def test_the_section_of_the_page_trains(taught: Path, tmp_path: Path) -> None:
    (shown,) = (one for one in blocks(GUIDE / "distillation.md", "yaml") if "hidden: {w" in one)
    rows = json.dumps(contract_of(taught, "mlp")["data"])
    (tmp_path / "c.yaml").write_text(f"{shown}\ndata: {rows}\n")
    few = ["training.num_epochs=1", "metric={name: accuracy, target: dummy, resamples: 100}"]
    teacher = f"training.teacher.bundle={taught / 'runs/teacher'}"
    run = tw.train(tmp_path / "c.yaml", overrides=[*few, teacher], runs=tmp_path)
    assert read_json(run.folder / "data/manifest.json")["teacher"]["sha256"]


@pytest.mark.extended
@pytest.mark.parametrize("kind", ["tabular_resnet", "ft_transformer"])
def test_each_network_of_tables_learns_states(kind: str, taught: Path, tmp_path: Path) -> None:
    run = tw.train(contract_of(taught, kind, hidden={"weight": 0.5}), runs=tmp_path)
    (weights,) = (run.folder / "bundle").glob("*.safetensors")
    assert not _has_projection(load_file(weights))
    tw.load(run.folder).predict(pl.DataFrame({"x": [0.1], "z": [2.0]}))


def test_who_has_no_state_is_refused(taught: Path, tmp_path: Path) -> None:
    contract = contract_of(taught, "boosting", hidden={"weight": 0.5})
    with pytest.raises(Mistake, match="has no hidden state of a row") as caught:
        tw.train(contract, runs=tmp_path)
    assert "mlp, ft_transformer, tabular_resnet" in caught.value.problems[0].expected
    tw.train(contract_of(taught, "boosting"), runs=taught / "runs", name="trees")
    contract = contract_of(taught, "mlp", hidden={"weight": 0.5})
    contract["training"]["teacher"]["bundle"] = str(taught / "runs/trees")
    with pytest.raises(Mistake, match="the teacher has no hidden state of a row") as caught:
        tw.train(contract, runs=tmp_path)
    assert caught.value.problems[0].fix
    assert not list(tmp_path.iterdir())


@pytest.mark.extended
def test_images_and_texts_learn_states(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A ViT from scratch learns from a residual network, an encoder of texts from a larger one; an
    architecture whose head reads every token is refused."""
    pytest.importorskip("transformers")
    from made_texts import write_base, write_rows

    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    make_images(tmp_path / "digits")
    images: dict[str, Any] = {
        "data": {"kind": "images", "path": str(tmp_path / "digits")},
        "task": "classification",
        "model": {"kind": "resnet", "width": 4, "blocks": [1, 1]},
        "training": {"num_epochs": 1},
        "metric": {"name": "accuracy", "target": "dummy", "resamples": 100},
    }
    write_rows(tmp_path / "rows.csv", 160)
    write_base(tmp_path / "large")
    write_base(tmp_path / "small", "distilbert", dim=8)
    texts = {
        **images,
        "data": {"path": str(tmp_path / "rows.csv"), "target": "label"},
        "model": {"architecture": str(tmp_path / "large")},
    }
    students = {
        "images": {"kind": "resnet", "width": 4, "blocks": [1]},
        "texts": {"architecture": str(tmp_path / "small")},
    }
    for name, contract in (("images", images), ("texts", texts)):
        tw.train(contract, runs=tmp_path, name=name)
        teacher = {"bundle": str(tmp_path / name), "hidden": {"distance": "mse"}}
        student = {**contract, "model": students[name]}
        student["training"] = {"num_epochs": 1, "teacher": teacher}
        run = tw.train(student, runs=tmp_path, name=f"{name}-student")
        (weights,) = (run.folder / "bundle").glob("*.safetensors")
        assert not _has_projection(load_file(weights))
