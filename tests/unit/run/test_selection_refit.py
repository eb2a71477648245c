"""`training.refit` beside `model: {kind: auto}`: what is kept is trained again on all rows."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import trainwright as tw
from command import CONTRACT, Ran, command, project_in
from faults.zygote import Zygote
from trainwright.core.files import read_json
from trainwright.doctor.verify_run import verify_run
from trainwright.predictor.ensemble_scorer import EnsembleScorer
from trainwright.tracking.run_folder import RunFolder

AUTO = CONTRACT.replace("kind: boosting", "kind: auto").replace("  max_trees: 5\n", "")
QUICK = ("--set", "metric.resamples=100", "--set", "training.refit=true")
BAGGED = ("model.candidates=[linear, forest, boosting]", "model.ensemble=always", "model.bagging=2")


def sets(*settings: str) -> list[str]:
    return [word for setting in settings for word in ("--set", setting)]


def trains(name: str, *settings: str) -> Ran:
    ran = command("train", "small.yaml", "--run", name, *QUICK, *sets(*settings))
    assert ran.code in (0, 3), ran.err
    return ran


def bits(run: Path) -> dict[str, bytes]:
    return {
        path.relative_to(run).as_posix(): path.read_bytes()
        for path in sorted((run / "bundle").rglob("*"))
        if path.is_file() and path.name not in ("bundle.json", "profile.json")
    }


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Path]:
    yield from project_in(tmp_path, AUTO)


@pytest.mark.extended
@pytest.mark.parametrize(
    "model",
    [
        pytest.param({"kind": "boosting", "max_trees": 2000}, id="boosting"),
        pytest.param({"kind": "mlp"}, id="mlp", marks=pytest.mark.torch),
    ],
)
def test_a_kept_candidate_is_what_its_own_contract_trains_again(
    project: Path, model: dict[str, Any]
) -> None:
    kind = model["kind"]
    epochs = ("training.num_epochs=3",) if kind == "mlp" else ()
    if kind == "mlp":
        pytest.importorskip("torch")
    trains("auto", f"model={{kind: auto, candidates: [{kind}], ensemble: false}}", *epochs)
    written = "\n".join(f"  {key}: {value}" for key, value in model.items())
    text = CONTRACT.replace("  kind: boosting\n  max_trees: 5", written)
    (project / "alone.yaml").write_text(text)
    words = ("--run", "alone", *QUICK, *sets(*epochs))
    assert command("train", "alone.yaml", *words).code in (0, 3)
    auto, alone = bits(Path("runs/auto")), bits(Path("runs/alone"))
    weights = "model.txt" if kind == "boosting" else ".safetensors"
    found = {name: one for name, one in auto.items() if name.endswith(weights)}
    assert found
    assert found == {name: alone[name] for name in found}
    of_auto, of_alone = (
        read_json(Path("runs", name, "evaluation.json")) for name in ("auto", "alone")
    )
    assert of_auto["evaluation"]["metrics"] == of_alone["evaluation"]["metrics"]
    assert of_auto["refit"]["rows"] == of_alone["refit"]["rows"] == 255


@pytest.mark.extended
def test_each_member_of_an_ensemble_is_one_model_of_all_rows(project: Path) -> None:
    trains("one", *BAGGED, "seed=1")
    (facts,) = read_json(Path("runs/one/ladder.json"))["ensemble"]
    new = {"age": [20, 79], "city": ["Oslo", "Rome"], "visits": [3.0, None]}
    wanted = np.zeros(2)
    for name, weight in facts["weights"].items():
        place = Path("runs/one/refits/01/candidates", name, "01/bundle")
        wanted += weight * tw.load(project / place).predict(new)["probability_yes"].to_numpy()
        first = read_json(Path("runs/one/candidates", name, "01/bundle/bundle.json"))
        assert first["files"] != read_json(place / "bundle.json")["files"]
    assert len(facts["weights"]) > 1
    own = tw.load(project / "runs" / "one")
    np.testing.assert_allclose(own.predict(new)["probability_yes"].to_numpy(), wanted, atol=1e-12)
    assert isinstance(own.scorer, EnsembleScorer)
    assert len(own.scorer.members) == len(facts["weights"])
    checked = verify_run(RunFolder.open(Path("runs/one")))
    assert not [one for one in checked if one.status == "broken"]


def test_a_killed_second_training_goes_on_to_the_same_bits(project: Path, zygote: Zygote) -> None:
    words = ("train", "small.yaml", *QUICK, *sets(*BAGGED, "model.candidates=[linear, boosting]"))
    assert command(*words, "--run", "whole").code in (0, 3)
    # Four bundles of folds, then those of the second training.
    killed = (*words, "--run", "cut", "--resume")
    assert zygote.run(killed, Path.cwd(), fault="export:6:kill").code == -signal.SIGKILL
    assert Path("runs/cut/refits/01").is_dir()
    assert command("resume", "runs/cut").code in (0, 3)
    assert bits(Path("runs/cut")) == bits(Path("runs/whole"))


def test_a_plateau_is_refused(project: Path) -> None:
    ran = command("train", "small.yaml", *QUICK, *sets("training.scheduler.name=reduce_on_plateau"))
    assert ran.code == 2
    assert "cannot be repeated" in ran.err
    assert not Path("runs").exists()
