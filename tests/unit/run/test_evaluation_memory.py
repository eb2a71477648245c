"""Memory that runs out in an evaluation: fewer rows in each pass, the same numbers, and the run
goes on."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

import contract_runs  # noqa: E402
import trainwright.run.compose.compose_job as composing  # noqa: E402
import trainwright.run.learners.network_learner as learning  # noqa: E402
from canary import Killed  # noqa: E402
from command import command, project_in, with_layers  # noqa: E402
from faults.tiers import each  # noqa: E402
from trainwright.contract.sections.model.gpt import Gpt  # noqa: E402
from trainwright.contract.sections.model.resnet import ResNet  # noqa: E402
from trainwright.contract.sections.model.traits import ModelSection  # noqa: E402
from trainwright.core.errors import Mistake  # noqa: E402
from trainwright.data.base.inputs import ImageInputs, Inputs  # noqa: E402
from trainwright.data.base.token_inputs import TokenInputs  # noqa: E402
from trainwright.data.columns.class_target import Classes, NextToken  # noqa: E402
from trainwright.engine.execution.adaptive_eval_batch import AdaptiveEvalBatch  # noqa: E402
from trainwright.engine.loop import fit  # noqa: E402
from trainwright.model.build_network import build_network  # noqa: E402
from trainwright.model.input_shape import ImageShape, Shape, TokenShape  # noqa: E402
from trainwright.predictor.network_scorer import NetworkScorer  # noqa: E402
from trainwright.tracking.events import Noted  # noqa: E402

pytestmark = pytest.mark.torch

REAL = "DefaultCPUAllocator: can't allocate memory: you tried to allocate 100000000 bytes."
NETWORK = with_layers("[16, 8]") + "training:\n  num_epochs: 4\n  batch_size: 64\n"


@dataclass
class SmallMemory:
    """A machine whose memory takes so many rows of an evaluation at once."""

    most: int = 10**9
    passes: int = 0

    def limit(self, model: nn.Module) -> nn.Module:
        model.register_forward_pre_hook(self._allocate)
        return model

    def _allocate(self, model: nn.Module, inputs: tuple[torch.Tensor, ...]) -> None:
        if not model.training:
            self.passes += 1
            if len(inputs[0]) > self.most:
                raise RuntimeError(REAL)


def _text() -> tuple[Inputs, Callable[[AdaptiveEvalBatch, SmallMemory], NetworkScorer]]:
    tokens = np.random.default_rng(0).integers(0, 9, 400).astype(np.uint16)
    starts = np.arange(1, 400, 30)
    section, shape = Gpt(kind="gpt", layers=1, width=16, heads=2, context=16), TokenShape(9)
    model = build_network(section, shape).double().eval()
    inputs = TokenInputs(tokens, starts, np.minimum(30, 400 - starts))
    return inputs, lambda portions, memory: NetworkScorer(
        section, shape, NextToken(9), memory.limit(model), portions
    )


def _images() -> tuple[Inputs, Callable[[AdaptiveEvalBatch, SmallMemory], NetworkScorer]]:
    pixels = np.random.default_rng(0).integers(0, 256, (30, 1, 8, 8), dtype=np.uint8)
    section = ResNet(kind="resnet", width=8, blocks=(1,), norm="batch")
    shape = ImageShape((1, 8, 8), (127.0,), (70.0,), 3)
    model = build_network(section, shape).double().eval()
    target = Classes("label", ("a", "b", "c"), 0)
    return ImageInputs.of(pixels), lambda portions, memory: NetworkScorer(
        section, shape, target, memory.limit(model), portions
    )


@pytest.mark.extended
@pytest.mark.parametrize("make", [_text, _images])
@pytest.mark.parametrize("most", each(2, [1, 4, 7], start=1))
def test_the_numbers_are_those_of_an_evaluation_with_enough_memory(
    most: int, make: Callable[[], tuple[Inputs, Callable[..., NetworkScorer]]]
) -> None:
    inputs, build = make()
    expected = build(AdaptiveEvalBatch(), SmallMemory()).score(inputs)
    told: list[Noted] = []
    scorer = build(AdaptiveEvalBatch(tell=told.append), SmallMemory(most))
    np.testing.assert_allclose(scorer.score(inputs), expected, rtol=1e-12)
    assert told
    assert {noted.kind for noted in told} == {"out_of_memory_in_evaluation"}
    assert told[-1].numbers["rows"] <= most < told[-1].numbers["rows_before"]
    count = len(told)
    scorer.score(inputs)
    assert len(told) == count, "it stays with fewer rows"


@pytest.mark.extended
def test_one_row_that_does_not_fit_is_a_clear_mistake() -> None:
    inputs, build = _images()
    with pytest.raises(Mistake, match=r"1 row per batch: DefaultCPUAllocator"):
        build(AdaptiveEvalBatch(), SmallMemory(0)).score(inputs)


def test_raise_does_not_halve() -> None:
    inputs, build = _images()
    with pytest.raises(Mistake, match=r"set training.guard.out_of_memory: split"):
        build(AdaptiveEvalBatch("raise"), SmallMemory(20)).score(inputs)


def test_other_errors_pass() -> None:
    def evaluate() -> float:
        raise RuntimeError("mat1 and mat2 shapes cannot be multiplied")

    with pytest.raises(RuntimeError, match="mat1"):
        AdaptiveEvalBatch().complete(evaluate)


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch) -> SmallMemory:
    """Of the machine on which runs are composed."""
    small = SmallMemory()
    find = composing.network_family

    class Limited:
        def __init__(self, section: ModelSection) -> None:
            self._family = find(section)

        def build(self, section: ModelSection, shape: Shape) -> nn.Module:
            return small.limit(self._family.build(section, shape))

        def __getattr__(self, name: str) -> object:
            return getattr(self._family, name)

    monkeypatch.setattr(composing, "network_family", Limited)
    return small


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Path]:
    yield from project_in(tmp_path, NETWORK)


def ran(name: str) -> tuple[list[dict[str, float]], dict[str, object], list[dict[str, object]]]:
    """Train; the validations, the evaluation of the test rows, and what was noted."""
    done = command("train", "small.yaml", "--run", name)
    assert done.code in (0, 3), done.err
    folder = Path("runs") / name
    events = [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]
    validated = [event["values"] for event in events if event["event"] == "validated"]
    noted = [event for event in events if event["event"] == "noted"]
    return validated, json.loads((folder / "evaluation.json").read_text())["evaluation"], noted


def near(ours: dict[str, dict[str, float]], theirs: dict[str, dict[str, float]]) -> bool:
    """Whether all intervals are the same but for the order in which numbers are added."""
    values = [[one[name]["value"] for name in sorted(theirs)] for one in (ours, theirs)]
    return values[0] == pytest.approx(values[1], rel=1e-5)


@pytest.mark.extended
def test_a_run_validates_and_is_judged_with_little_memory(
    project: Path, memory: SmallMemory
) -> None:
    validated, evaluation, noted = ran("enough")
    assert not noted
    memory.most = 9
    little = ran("little")
    assert [one["kind"] for one in little[2]] == ["out_of_memory_in_evaluation"] * len(little[2])
    assert little[2][-1]["numbers"]["rows"] <= 9
    for ours, theirs in zip(little[0], validated, strict=True):
        assert ours == pytest.approx(theirs, rel=1e-5)
    assert near(little[1]["metrics"], evaluation["metrics"])


@pytest.mark.extended
def test_the_test_rows_are_judged_where_only_they_do_not_fit(
    project: Path, memory: SmallMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, evaluation, _ = ran("enough")

    def trained(job: object) -> object:
        ended = fit(job)
        memory.most = 9
        return ended

    monkeypatch.setattr(learning, "fit", trained)
    _, judged, noted = ran("little")
    assert noted
    assert {one["kind"] for one in noted} == {"out_of_memory_in_evaluation"}
    assert near(judged["metrics"], evaluation["metrics"])


@pytest.mark.extended
def test_a_resumed_run_makes_the_same_passes(project: Path, memory: SmallMemory) -> None:
    """Also where memory would suffice the second time."""
    memory.most = 9
    contract = Path("small.yaml").absolute()
    whole = contract_runs.train(contract, "whole")
    with pytest.raises(Killed):
        contract_runs.train(contract, "cut", dies_at=12)
    memory.most, memory.passes = 10**9, 0
    cut = contract_runs.train(contract, "cut")
    assert contract_runs.bits(cut) == contract_runs.bits(whole)
    for name in ("patience", "portions"):
        ours, theirs = cut.job.state[name].snapshot(), whole.job.state[name].snapshot()
        assert ours.values == theirs.values
