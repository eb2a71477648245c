"""Conformance checks of scorers, and a fake one."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import ClassVar, final

import numpy as np

from trainwright.core.files import read_json, write_json
from trainwright.data.base.inputs import Floats, Inputs, SparseColumns, Undecoded, as_columns
from trainwright.data.base.levels import Levels
from trainwright.model.family import Scorer


@final
@dataclass(frozen=True, slots=True)
class FakeScorer:
    """Returns the first numeric column as the probability of class 1 (0 if missing)."""

    kind: ClassVar[str] = "fake"

    def score(self, inputs: Inputs) -> Floats:
        """Class probabilities [N, 2]."""
        chance = np.clip(
            np.nan_to_num(as_columns(inputs).numeric[:, 0].astype(np.float64)), 0.0, 1.0
        )
        return np.stack([1 - chance, chance], axis=1)

    def write(self, folder: Path) -> None:
        """Write `fake.json`."""
        write_json(folder / "fake.json", {})


def read_fake(folder: Path) -> FakeScorer:
    """Read what `FakeScorer.write` wrote."""
    assert read_json(folder / "fake.json") == {}
    return FakeScorer()


@dataclass(frozen=True, slots=True)
class ScorerCase:
    """Scorer to check: `inputs` of at least two rows, the expected number of columns C, its
    reader, and whether several columns are embeddings rather than probabilities."""

    scorer: Scorer
    inputs: Inputs
    outputs: int
    read: Callable[[Path], Scorer]
    gives_embeddings: bool = False


def check_shape(case: ScorerCase) -> None:
    """N rows of float64 scores for N rows, also for none and for one."""
    for count in (0, 1, len(case.inputs)):
        scores = case.scorer.score(case.inputs.take(np.arange(count)))
        assert scores.shape == (count, case.outputs), (count, scores.shape)
        assert scores.dtype == np.float64, scores.dtype


def check_values(case: ScorerCase) -> None:
    """Finite scores; probabilities are in [0, 1] and sum to 1."""
    scores = case.scorer.score(case.inputs)
    assert bool(np.isfinite(scores).all()), "scores are finite"
    if case.outputs > 1 and not case.gives_embeddings:
        assert bool((scores >= 0).all()), "probabilities are not negative"
        np.testing.assert_allclose(scores.sum(axis=1), 1.0, rtol=0, atol=1e-6)


def check_purity(case: ScorerCase) -> None:
    """The same rows get the same scores again, and their inputs are unchanged."""
    before = copy.deepcopy(case.inputs)
    first = case.scorer.score(case.inputs)
    np.testing.assert_array_equal(first, case.scorer.score(case.inputs))
    for one, other in zip(_arrays(before), _arrays(case.inputs), strict=True):
        np.testing.assert_array_equal(one, other)


def _arrays(inputs: object) -> Iterator[object]:
    assert is_dataclass(inputs), "inputs are values"
    for field in fields(inputs):
        match getattr(inputs, field.name):
            case SparseColumns() as columns:
                yield columns.dense()
            case Undecoded(places, hashes):
                yield from (places, np.array(hashes))
            case Levels() | Inputs() as nested:
                yield from _arrays(nested)
            case value:
                yield value


def check_rows_apart(case: ScorerCase) -> None:
    """A row's scores do not depend on its neighbours, beyond the rounding of a matrix product."""
    together = case.scorer.score(case.inputs)
    backwards = np.arange(len(case.inputs))[::-1].astype(np.int64)
    turned = case.scorer.score(case.inputs.take(backwards))[backwards]
    np.testing.assert_allclose(together, turned, rtol=1e-5, atol=1e-6)


def check_round_trip(case: ScorerCase, folder: Path) -> None:
    """After writing to an empty folder and reading back, it has its kind and gives identical
    scores."""
    case.scorer.write(folder)
    assert any(folder.iterdir()), "it writes its files"
    again = case.read(folder)
    assert again.kind == case.scorer.kind
    np.testing.assert_array_equal(case.scorer.score(case.inputs), again.score(case.inputs))
