"""The benchmark measures what it says: all loops make the same updates, ours with all its parts."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

import loop  # noqa: E402
from loops import budget, measure, plain  # noqa: E402
from loops.gate import Gate  # noqa: E402
from loops.measure import Contender  # noqa: E402
from loops.workloads import WORKLOADS, Setting, make  # noqa: E402

pytestmark = pytest.mark.torch

FP32 = Setting("fp32", 1)
HAND_MADE = [one for one in measure.OWN if one.name != "plain again"]


@pytest.fixture(autouse=True)
def short_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    short = replace(WORKLOADS["tiny_mlp"], steps=2)
    monkeypatch.setitem(WORKLOADS, "tiny_mlp", short)


@pytest.mark.slow
def test_the_json_has_a_ratio_of_each_loop(capsys: pytest.CaptureFixture[str]) -> None:
    given = "--json --rounds 2 --only tiny_mlp --precision fp32 --accumulate 1 --peers"
    loop.main(given.split(" "))
    (found,) = json.loads(capsys.readouterr().out).values()
    assert found["tiny_mlp"].keys() == {one.name for one in measure.OWN}
    problems = {name: row["problem"] for name, row in found["tiny_mlp"].items() if "problem" in row}
    assert problems == {"nanoGPT's manner, clipping": "is for tokens"}
    ratios = [row["ratio"] for row in found["tiny_mlp"].values() if "ratio" in row]
    assert len(ratios) == len(measure.OWN) - 1
    assert all(ratio > 0 for ratio in ratios)


def test_the_section_tells_of_what_it_shows() -> None:
    row = measure.Row("plain", (1.0, 2.0))
    small = loop.section({FP32: {"tiny_mlp": [row]}}, 4)
    assert "One thread, 4 rounds; `tiny_mlp`: " in small
    assert "gpt" not in small.partition("One thread")[2]
    large = loop.section({FP32: {"tiny_mlp": [row], "gpt_10m": [row]}}, 4)
    assert "One thread, 4 rounds, of `gpt_10m` 2; `tiny_mlp`: " in large


@pytest.mark.extended
def test_all_hand_made_loops_make_the_same_updates() -> None:
    found = measure.check("gpt_1m", FP32, HAND_MADE)
    assert found == {one.name: "" for one in HAND_MADE}


@pytest.mark.extended
def test_they_do_in_bf16_with_accumulation_too() -> None:
    others = [one for one in HAND_MADE if not one.only_tokens]
    found = measure.check("tiny_mlp", Setting("bf16", 4), others)
    assert found == {one.name: "" for one in others}


def test_ours_makes_the_updates_of_the_plain_loop_of_images() -> None:
    plain_and_ours = [one for one in HAND_MADE if one.name in ("plain", "ours")]
    found = measure.check("resnet", FP32, plain_and_ours)
    assert found == {"plain": "", "ours": ""}


class Replaced:
    """A gate that shows another thing to a loop than to who waits for it."""

    def __init__(self, gate: Gate, seen: Callable[[torch.nn.Module], object]) -> None:
        self.passed, self.folder, self._gate, self._seen = gate.passed, gate.folder, gate, seen

    def watch(self, model: torch.nn.Module, applied: Callable[[], int]) -> None:
        self._seen(model)
        self._gate.watch(model, applied)


def other_weights(work: str, setting: Setting, gate: Gate) -> None:
    def shift(model: torch.nn.Module) -> None:
        with torch.no_grad():
            next(model.parameters()).add_(1e-3)

    plain.plain(work, setting, Replaced(gate, shift))


def half_the_batches(work: str, setting: Setting, gate: Gate) -> None:
    class Hurried(Replaced):
        def __init__(self) -> None:
            super().__init__(gate, lambda model: None)
            self.passed = lambda count: [gate.passed(count) for _ in range(2)]

    plain.plain(work, setting, Hurried())


def breaks(work: str, setting: Setting, gate: Gate) -> None:
    make(work, setting, False).start(gate)
    gate.passed()
    raise ValueError("its own mistake")


def ends(work: str, setting: Setting, gate: Gate) -> None:
    make(work, setting, False).start(gate)


@pytest.mark.extended
@pytest.mark.parametrize(
    ("contender", "problem"),
    [
        (Contender("other", other_weights), "of the way apart after"),
        (Contender("other", half_the_batches), "steps where 4 were to be checked"),
        (Contender("other", breaks), "ValueError: its own mistake"),
        (Contender("other", ends), "ended by itself"),
        (Contender("other", plain.plain, "not_there"), "not_there is not installed"),
        (Contender("other", plain.plain, only_tokens=True), "is for tokens"),
    ],
)
def test_a_loop_that_cannot_be_compared_says_why(contender: Contender, problem: str) -> None:
    rows = measure.measure("tiny_mlp", FP32, [Contender("plain", plain.plain), contender], 1)
    assert [row.contender for row in rows] == ["plain", "other"]
    assert rows[0].seconds
    assert not rows[0].problem
    assert problem in rows[1].problem
    assert not rows[1].seconds
    table = loop.table({"tiny_mlp": rows})
    assert rows[1].problem in table


@pytest.mark.parametrize(
    ("name", "least", "most"), [("gpt_1m", 1e6, 1.1e6), ("gpt_10m", 1e7, 1.1e7)]
)
def test_the_models_are_as_large_as_they_are_called(
    tmp_path: Path, name: str, least: float, most: float
) -> None:
    folder = tmp_path / "loop"
    folder.mkdir()
    model, _ = make(name, FP32, False).start(Gate(folder))
    assert least < sum(parameter.numel() for parameter in model.parameters()) < most


def test_the_loops_have_the_schedule_of_the_contract() -> None:
    made = make("tiny_mlp", FP32, False)
    assert made.factor_at(0) == 1 / made.warmup_steps
    assert made.factor_at(made.warmup_steps) == 1
    assert made.factor_at(made.total_steps - 1) == pytest.approx(made.floor)


@pytest.mark.slow
def test_the_parts_of_a_step_make_the_whole(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(budget, "CALLS", 60)
    costs = budget.budget("tiny_mlp", 1)
    *parts, (last, whole), (beside, _) = costs
    assert (last, beside) == ("everything", "beside it: ten signals of one's own")
    assert sum(seconds for _, seconds in parts) == pytest.approx(whole)
    names = [name for name, _ in parts]
    assert len(set(names)) == len(names)
    assert set(names) >= {"feed", "knobs", "guard", "stop rules", *budget.NAMES.values()}
    assert "| everything |" in budget.table(costs)
    assert capsys.readouterr().out == ""
