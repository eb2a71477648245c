"""Every family that this version trains, through the suite that all of them pass."""

from __future__ import annotations

from pathlib import Path

import pytest

import trainwright as tw
from trainwright.contract.sections.model import kinds_with, sections
from trainwright.testing.family_conformance import (
    FamilyCase,
    check_batches,
    check_class_weights,
    check_judged,
    check_resume,
    check_same_model_again,
    check_signature,
    check_unusual_values,
    write_family_case,
)

Trained = tuple[FamilyCase, Path]

KINDS = kinds_with(lambda traits: not traits.needs_files)
"""Those that need no files of their own: encoders are held in `test_text_models`."""


def marked(kind: str) -> object:
    marks = [pytest.mark.torch] if sections()[kind].traits.trained_by == "loop" else []
    return pytest.param(kind, marks=marks)


@pytest.fixture(scope="module", params=[marked(kind) for kind in KINDS])
def trained(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    folder = tmp_path_factory.mktemp(request.param)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRAINWRIGHT_CACHE", str(folder / "cache"))
        case = write_family_case(request.param, folder)
        return case, tw.train(case.contract, runs=case.runs, name="whole").folder


def test_it_is_judged(trained: Trained) -> None:
    check_judged(trained[1])


@pytest.mark.extended
def test_the_same_seed_gives_the_same_model(trained: Trained) -> None:
    check_same_model_again(*trained)


def test_it_resumes_to_the_same_bits(trained: Trained) -> None:
    """A fit that is killed starts again, if its library cannot go on."""
    traits = sections()[trained[0].kind].traits
    if traits.trained_by == "library" and not traits.rounds:
        check_same_model_again(*trained)
    else:
        check_resume(*trained)


def test_it_predicts_in_batches_of_any_size(trained: Trained) -> None:
    if trained[0].reads in ("tokens", "captions"):
        pytest.skip("a text is scored or written, not predicted")
    check_batches(*trained)


def test_unusual_values_give_probabilities(trained: Trained) -> None:
    of_tables(trained)
    check_unusual_values(trained[1])


def test_other_columns_are_refused(trained: Trained) -> None:
    of_tables(trained)
    check_signature(trained[1])


@pytest.mark.extended
def test_class_weights_raise_the_rare_class(trained: Trained) -> None:
    of_tables(trained)
    check_class_weights(*trained)


def of_tables(trained: Trained) -> None:
    if trained[0].reads != "table":
        pytest.skip("reads no table")
