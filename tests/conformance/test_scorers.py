from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import pytest

from library_jobs import job_of_rows
from trainwright.contract.sections.data.pairs import CaptionTokens
from trainwright.contract.sections.model import kinds_with, sections
from trainwright.contract.sections.model.dual_encoder import DualEncoder
from trainwright.contract.sections.model.gpt import Gpt
from trainwright.contract.sections.model.pretrained import Pretrained
from trainwright.contract.sections.model.resnet import ResNet
from trainwright.contract.sections.model.table_networks import TabularResNet
from trainwright.data.base.inputs import ImageInputs, TableInputs
from trainwright.data.base.pair_inputs import PairInputs
from trainwright.data.base.token_inputs import TokenInputs
from trainwright.data.columns.class_target import Classes, NextToken
from trainwright.data.columns.number_target import Numbers
from trainwright.data.columns.retrieval_targets import Matching
from trainwright.data.pairs.caption_tokenizer import fit_captions
from trainwright.model.baselines.dummy import fit_constant, read_constant
from trainwright.model.baselines.ngram_baseline import fit_frequencies, read_frequencies
from trainwright.model.baselines.okapi_bm25 import fit_okapi_bm25, read_okapi_bm25
from trainwright.model.baselines.ridge_match import fit_ridge_match, read_ridge_match
from trainwright.model.families import FAMILIES
from trainwright.model.family import LearningTask
from trainwright.model.input_shape import ImageShape, PairShape, TableShape, TextShape, TokenShape
from trainwright.model.library_family import LibraryFamily
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


class Rows(NamedTuple):
    """Inputs with their target."""

    inputs: TableInputs
    target: np.ndarray


def _rows(outputs: int, count: int = 400) -> Rows:
    generator = np.random.default_rng(outputs)
    numeric = generator.normal(size=(count, 3)).astype(np.float32)
    categories = np.stack([generator.integers(0, top, count) for top in CARDINALITIES], axis=1)
    signal = numeric[:, 0] + 0.5 * categories[:, 0] + generator.normal(size=count)
    if outputs == 1:
        return Rows(TableInputs(numeric, categories), signal.astype(np.float64))
    edges = np.quantile(signal, np.linspace(0, 1, outputs + 1)[1:-1])
    return Rows(TableInputs(numeric, categories), np.digitize(signal, edges).astype(np.int64))


def _case(family: str, outputs: int) -> ScorerCase:
    rows = _rows(outputs)
    match family:
        case "fake":
            return ScorerCase(FakeScorer(), rows.inputs, 2, read_fake)
        case "constant":
            return ScorerCase(
                fit_constant(rows.target, outputs), rows.inputs, outputs, read_constant
            )
        case "network":
            return _network(rows, outputs)
        case "frequencies" | "gpt":
            return _of_text(family)
        case "resnet":
            return _resnet(outputs)
        case _ if family in LIBRARY_KINDS:
            return _of_library(family, outputs)
        case "encoder":
            return _encoder(outputs)
        case "dual_encoder":
            return _dual_encoder()
        case "okapi_bm25":
            return _okapi_bm25()
        case "ridge_match":
            return _ridge_match()
        case _:
            raise AssertionError(family)


def _of_library(kind: str, outputs: int) -> ScorerCase:
    """A library by its family, with the settings that a plan would choose."""
    family, model = library_family_of(kind), sections()[kind]
    job = job_of_rows(outputs, rows=400, missing=model.traits.reads_missing)
    section = model.model_validate({"kind": kind, **SHORT.get(kind, {})})
    name = "classification" if outputs > 1 else "regression"
    chosen = family.choices(section, LearningTask(name, "loss", outputs, has_texts=False))
    section = section.model_copy(update={key: value for key, (value, _) in chosen.items()})
    fitted = family.fit(section, job)
    return ScorerCase(fitted.scorer, job.validation.inputs, outputs, family.read)


def library_family_of(kind: str) -> LibraryFamily[Any]:
    family = FAMILIES[kind]
    assert isinstance(family, LibraryFamily)
    return family


def _network(rows: Rows, outputs: int) -> ScorerCase:
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


LIBRARY_KINDS = kinds_with(lambda traits: traits.trained_by == "library")
SHORT = {
    **{kind: {"max_trees": 20} for kind in ("boosting", "xgboost", "catboost")},
    "forest": {"trees": 20},
}


def _encoder(outputs: int) -> ScorerCase:
    pytest.importorskip("transformers", reason="needs the transformers extra")
    from made_texts import sentences, write_base
    from trainwright.model.build_network import build_network
    from trainwright.model.families import family_of
    from trainwright.predictor.network_scorer import NetworkScorer, read_network

    with TemporaryDirectory() as folder:
        write_base(Path(folder) / "base")
        section = Pretrained(architecture="base", max_length=20)
        family = family_of(section)
        section = family.read_files(section, Path(folder))
        shape = TextShape(20, outputs)
        network = build_network(section, shape).eval()
    target = (
        Numbers("label", 3.0, 2.0)
        if outputs == 1
        else Classes("label", tuple(f"class {code}" for code in range(outputs)), 0)
    )
    inputs = family.tokenizer(section).tokenize([[line for line, _ in sentences(50)]])
    return ScorerCase(NetworkScorer(section, shape, target, network), inputs, outputs, read_network)


def _dual_encoder() -> ScorerCase:
    pytest.importorskip("torch", reason="needs the torch extra")
    from trainwright.model.build_network import build_network
    from trainwright.predictor.network_scorer import NetworkScorer, read_network

    draw = np.random.default_rng(0)
    pixels = draw.integers(0, 256, (30, 3, 8, 8), dtype=np.uint8)
    words = [" ".join(draw.choice(["a", "red", "cat", "!"], 1 + at % 5)) for at in range(30)]
    captions = fit_captions(words, CaptionTokens())
    inputs = PairInputs(ImageInputs.of(pixels), captions.tokenize(words))
    images = ResNet(kind="resnet", width=8, blocks=(1,))
    section = DualEncoder(kind="dual_encoder", width=8, image=images)
    shape = PairShape((3, 8, 8), (127.0,) * 3, (70.0,) * 3, captions.size, 64, 16)
    target = Matching("caption", "image", 8)
    scorer = NetworkScorer(section, shape, target, build_network(section, shape).eval())
    return ScorerCase(scorer, inputs, 16, read_network, gives_embeddings=True)


def _ridge_match() -> ScorerCase:
    draw = np.random.default_rng(0)
    areas, terms = draw.random((40, 5)), draw.random((40, 3))
    numbers = np.concatenate([areas, terms], axis=1).astype(np.float32)
    inputs = TableInputs(numbers, np.empty((40, 0), np.int64))
    fitted = fit_ridge_match(areas, terms)
    return ScorerCase(fitted, inputs, 6, read_ridge_match, gives_embeddings=True)


def _okapi_bm25() -> ScorerCase:
    counts = np.random.default_rng(0).poisson(1.0, (40, 8)).astype(np.float64)
    inputs = TableInputs(counts.astype(np.float32), np.empty((40, 0), np.int64))
    fitted = fit_okapi_bm25(counts[:, 4:], np.array([3.0, 9.0, 20.0]), 40)
    return ScorerCase(fitted, inputs, 8, read_okapi_bm25, gives_embeddings=True)


CASES = [
    *((kind, n) for kind in LIBRARY_KINDS for n in (1, 2, 4)),
    ("fake", 2),
    ("frequencies", 1),
    ("gpt", 1),
    ("resnet", 3),
    *((family, n) for family in ("constant", "network") for n in (1, 2, 4)),
    ("encoder", 1),
    ("encoder", 3),
    ("dual_encoder", 16),
    ("okapi_bm25", 8),
    ("ridge_match", 6),
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
