"""Every family that predicts several targets, through the suite that all of them pass."""

from __future__ import annotations

from pathlib import Path

import pytest

import trainwright as tw
from trainwright.contract.sections.model import kinds_with, sections
from trainwright.core.files import read_json
from trainwright.testing.family_conformance import (
    FamilyCase,
    check_batches,
    check_judged,
    check_resume,
    check_same_model_again,
    check_signature,
    write_several_case,
)

Trained = tuple[FamilyCase, Path]

KINDS = kinds_with(
    lambda traits: {"targets", "labels"} <= traits.predicts and not traits.needs_files
)
QUICK = (
    *(("boosting", "regression"), ("mlp", "multilabel"), ("forest", "multilabel")),
    *(("xgboost", "regression"), ("catboost", "multilabel")),
)


def cases() -> list[object]:
    found = []
    for kind in KINDS:
        for task in ("regression", "multilabel"):
            marks = [pytest.mark.torch] if sections()[kind].traits.trained_by == "loop" else []
            marks += [] if (kind, task) in QUICK else [pytest.mark.slow]
            found.append(pytest.param((kind, task), marks=marks, id=f"{kind}-{task}"))
    return found


def test_the_families_are_those_that_say_so() -> None:
    assert {"linear", "forest", "boosting", "mlp", "tabular_resnet", "ft_transformer"} <= set(KINDS)


@pytest.fixture(scope="module", params=cases())
def trained(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    kind, task = request.param
    folder = tmp_path_factory.mktemp(kind)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRAINWRIGHT_CACHE", str(folder / "cache"))
        case = write_several_case(kind, folder, task)
        return case, tw.train(case.contract, runs=case.runs, name="whole").folder


def test_it_is_judged_as_a_whole_and_by_target(trained: Trained) -> None:
    check_judged(trained[1])
    found = read_json(trained[1] / "evaluation.json")["evaluation"]
    assert [one["name"] for one in found["targets"]] == trained[0].contract["data"]["target"]
    name = "r2" if trained[0].contract["task"] == "regression" else "average_precision"
    each = [one["metrics"][name]["value"] for one in found["targets"]]
    assert found["metrics"][name]["value"] == pytest.approx(sum(each) / len(each))
    gains = [one["gains"]["dummy"][name]["value"] for one in found["targets"]]
    assert found["gains"]["dummy"][name]["value"] == pytest.approx(sum(gains) / len(gains))


def test_it_resumes_to_the_same_bits(trained: Trained) -> None:
    traits = sections()[trained[0].kind].traits
    if traits.trained_by == "library" and not traits.rounds:
        check_same_model_again(*trained)
    else:
        check_resume(*trained)


def test_it_predicts_in_batches_of_any_size(trained: Trained) -> None:
    check_batches(*trained)


def test_other_columns_are_refused(trained: Trained) -> None:
    check_signature(trained[1])
