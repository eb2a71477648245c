from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from trainwright.contract.sections.model.boosting import Boosting
from trainwright.contract.sections.model.gpt import Gpt
from trainwright.contract.sections.model.linear import Linear
from trainwright.contract.sections.model.resnet import ResNet
from trainwright.contract.sections.model.tabular_resnet import TabularResNet
from trainwright.data.base.table import ImageInputs, TableInputs, TokenInputs
from trainwright.data.columns.target import Classes, NextToken, Numbers
from trainwright.model.boosting.lightgbm_trees import (
    BoostingJob,
    BoostingRows,
    fit_boosting,
    read_boosted,
)
from trainwright.model.dummy import fit_constant, read_constant
from trainwright.model.input_shape import ImageShape, TableShape, TokenShape
from trainwright.model.linear.linear_fit import fit_linear, read_linear
from trainwright.model.ngram_baseline import fit_frequencies, read_frequencies
from trainwright.testing.scorer_conformance import (
    FakeScorer,
    ScorerCase,
    check_purity,
    check_round_trip,
    check_rows_apart,
    check_shape,
    check_values,
    read_fake,
)

CARDINALITIES = (6, 4)


def _rows(outputs: int, count: int = 400) -> BoostingRows:
    generator = np.random.default_rng(outputs)
    numeric = generator.normal(size=(count, 3)).astype(np.float32)
    categories = np.stack([generator.integers(0, top, count) for top in CARDINALITIES], axis=1)
    signal = numeric[:, 0] + 0.5 * categories[:, 0] + generator.normal(size=count)
    if outputs == 1:
        return BoostingRows(TableInputs(numeric, categories), signal.astype(np.float64))
    edges = np.quantile(signal, np.linspace(0, 1, outputs + 1)[1:-1])
    return BoostingRows(
        TableInputs(numeric, categories), np.digitize(signal, edges).astype(np.int64)
    )


def _case(family: str, outputs: int) -> ScorerCase:
    rows = _rows(outputs)
    match family:
        case "fake":
            return ScorerCase(FakeScorer(), rows.inputs, 2, read_fake)
        case "constant":
            return ScorerCase(
                fit_constant(rows.target, outputs), rows.inputs, outputs, read_constant
            )
        case "linear":
            linear = fit_linear(
                Linear(kind="linear"), rows.inputs, rows.target, outputs, CARDINALITIES
            )
            return ScorerCase(linear, rows.inputs, outputs, read_linear)
        case "network":
            return _network(rows, outputs)
        case "frequencies" | "gpt":
            return _of_text(family)
        case "resnet":
            return _resnet(outputs)
        case _:
            section = Boosting(kind="boosting", max_trees=20)
            job = BoostingJob(section, rows, rows, outputs, seed=0, threads=1)
            return ScorerCase(fit_boosting(job), rows.inputs, outputs, read_boosted)


def _network(rows: BoostingRows, outputs: int) -> ScorerCase:
    pytest.importorskip("torch", reason="needs the torch extra")
    from trainwright.model.build_network import build_network
    from trainwright.predictor.network_scorer import NetworkScorer, read_network

    target = (
        Numbers("label", 3.0, 2.0)
        if outputs == 1
        else Classes("label", tuple(f"class {code}" for code in range(outputs)), 0)
    )
    section = TabularResNet(kind="tabular_resnet", width=16, blocks=1)
    shape = TableShape(rows.inputs.numeric.shape[1], CARDINALITIES, outputs)
    scorer = NetworkScorer(section, shape, target, build_network(section, shape).eval())
    return ScorerCase(scorer, rows.inputs, outputs, read_network)


def _of_text(family: str) -> ScorerCase:
    tokens = np.random.default_rng(0).integers(0, 9, 400).astype(np.uint16)
    starts = np.arange(1, 400, 30)
    text = TokenInputs(tokens, starts, np.minimum(30, 400 - starts))
    if family == "frequencies":
        return ScorerCase(fit_frequencies(text, 9, pairs=True), text, 1, read_frequencies)
    pytest.importorskip("torch", reason="needs the torch extra")
    from trainwright.model.build_network import build_network
    from trainwright.predictor.network_scorer import NetworkScorer, read_network

    section, shape = Gpt(kind="gpt", layers=1, width=16, heads=2, context=16), TokenShape(9)
    scorer = NetworkScorer(section, shape, NextToken(9), build_network(section, shape).eval())
    return ScorerCase(scorer, text, 1, read_network)


def _resnet(outputs: int) -> ScorerCase:
    pytest.importorskip("torch", reason="needs the torch extra")
    from trainwright.model.build_network import build_network
    from trainwright.predictor.network_scorer import NetworkScorer, read_network

    pixels = np.random.default_rng(0).integers(0, 256, (30, 1, 8, 8), dtype=np.uint8)
    section = ResNet(kind="resnet", width=8, blocks=(1,), norm="batch")
    shape = ImageShape((1, 8, 8), (127.0,), (70.0,), outputs)
    target = Classes("label", tuple(f"class {code}" for code in range(outputs)), 0)
    scorer = NetworkScorer(section, shape, target, build_network(section, shape).eval())
    return ScorerCase(scorer, ImageInputs.of(pixels), outputs, read_network)


CASES = [
    ("fake", 2),
    ("frequencies", 1),
    ("gpt", 1),
    ("resnet", 3),
    *((family, n) for family in ("constant", "linear", "boosting", "network") for n in (1, 2, 4)),
]


@pytest.fixture(scope="module", params=CASES, ids=lambda case: f"{case[0]}-{case[1]}")
def case(request: pytest.FixtureRequest) -> ScorerCase:
    return _case(*request.param)


def test_it_gives_a_row_for_a_row(case: ScorerCase) -> None:
    check_shape(case)


def test_its_scores_are_probabilities_or_numbers(case: ScorerCase) -> None:
    check_values(case)


def test_it_is_pure(case: ScorerCase) -> None:
    check_purity(case)


def test_its_rows_do_not_touch(case: ScorerCase) -> None:
    check_rows_apart(case)


def test_it_is_the_same_when_read_back(case: ScorerCase, tmp_path: Path) -> None:
    check_round_trip(case, tmp_path)
