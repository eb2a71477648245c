"""The public surface: what `import trainwright` promises. A name goes in or out on purpose."""

from __future__ import annotations

import inspect

import pytest

import trainwright

PUBLIC = frozenset(
    {
        "BlockDraws",
        "Checkpoints",
        "CurriculumDraws",
        "Every",
        "Feed",
        "GroupDraws",
        "Interrupted",
        "Job",
        "LearningRate",
        "LoaderFeed",
        "LossSum",
        "Mistake",
        "ModuleState",
        "OptimizerState",
        "OptimizerStep",
        "Pace",
        "Patience",
        "RandomState",
        "StepLimit",
        "TrainwrightError",
        "WeightedDraws",
        "Workers",
        "cosine_with_warmup",
        "fit",
        "judge",
        "load",
        "prepare",
        "read_contract",
        "train",
    }
)


def test_the_public_names_are_these() -> None:
    assert frozenset(trainwright.__all__) - {"__version__"} == PUBLIC


@pytest.mark.torch
@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_a_public_name_is_there_and_says_what_it_is(name: str) -> None:
    pytest.importorskip("torch")
    assert inspect.getdoc(getattr(trainwright, name))


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        trainwright.no_such_name  # noqa: B018
