from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pytest

from trainwright.contract.document import Contract
from trainwright.contract.sections.data.images import Augment
from trainwright.planner.plan_facts import DeviceFacts
from trainwright.planner.resolve.compute_choices import Making, choose_workers, workers_by_rule

TWO = DeviceFacts(cores=2)


@dataclass
class Measured:
    """A machine whose numbers are given."""

    found: Making
    rates: Mapping[int, float] = field(default_factory=dict)
    asked: list[int] = field(default_factory=list)

    def making(self) -> Making:
        return self.found

    def rows_per_second(self, counts: Sequence[int]) -> Mapping[int, float]:
        self.asked += counts
        return {count: self.rates[count] for count in counts}


@pytest.mark.parametrize(
    ("rates", "chosen"),
    [
        ({0: 100.0, 1: 90.0, 2: 80.0}, 0),
        ({0: 100.0, 1: 104.0, 2: 101.0}, 0),
        ({0: 100.0, 1: 120.0, 2: 110.0}, 1),
        ({0: 100.0, 1: 120.0, 2: 150.0}, 2),
    ],
)
def test_the_fastest_number_is_taken_where_it_is_worth_it(
    rates: Mapping[int, float], chosen: int
) -> None:
    choice = choose_workers(Measured(Making(0.01, 0.02, 1000.0), rates), TWO)
    assert choice.value == chosen
    assert choice.measured["rows_per_second"] == {str(at): rate for at, rate in rates.items()}
    assert "33.3% of a step" in choice.reason


def test_the_candidates_go_up_to_the_cores() -> None:
    machine = Measured(Making(1.0, 1.0, 1000.0), dict.fromkeys((0, 1, 2, 4, 8), 1.0))
    choose_workers(machine, DeviceFacts(cores=12))
    assert machine.asked == [0, 1, 2, 4, 8]


@pytest.mark.parametrize(
    ("making", "reason"),
    [
        (Making(0.001, 0.1, 1000.0), "1.0% of a step: nothing to gain"),
        (Making(0.1, 0.1, 3.0), "making all batches of the run takes"),
    ],
)
def test_nothing_is_tried_where_there_is_nothing_to_gain(making: Making, reason: str) -> None:
    machine = Measured(making)
    choice = choose_workers(machine, TWO)
    assert (choice.value, machine.asked) == (0, [])
    assert reason in choice.reason


def contract(data: Mapping[str, object], model: str) -> Contract:
    return Contract.model_validate({"data": data, "model": {"kind": model}})


CHANGED = {"kind": "images", "path": "x", "augment": {"flip": True}}


@pytest.mark.parametrize(
    ("data", "model", "device", "reason"),
    [
        ({"path": "x.csv"}, "mlp", TWO, "rows in memory are gathered, not made"),
        ({"kind": "images", "path": "x"}, "resnet", TWO, "rows in memory are gathered, not made"),
        (CHANGED, "boosting", TWO, "the model is fitted on all rows at once"),
        (CHANGED, "resnet", DeviceFacts("cuda", cores=8), "images are changed on the GPU"),
        (CHANGED, "resnet", DeviceFacts(cores=1), "there is one core"),
    ],
)
def test_a_rule_decides_where_one_can(
    data: Mapping[str, object], model: str, device: DeviceFacts, reason: str
) -> None:
    assert workers_by_rule(contract(data, model), device) == {"num_workers": (0, reason)}


CHANGES = {
    "flip": True,
    "crop": 2,
    "randaugment": {"operations": 2},
    "colors": {"hue": 0.1},
    "cutout": 3,
    "erase": {"probability": 0.3},
    "mixup": 0.2,
    "cutmix": 1.0,
}


@pytest.mark.parametrize("field", Augment.model_fields)
def test_changed_images_on_a_cpu_are_measured(field: str) -> None:
    data = CHANGED | {"augment": {field: CHANGES[field]}}
    assert workers_by_rule(contract(data, "resnet"), TWO) == {}


@pytest.mark.parametrize(
    "augment", [{}, {"randaugment": {"magnitude": 9.0}}, {"erase": {"smallest": 0.1}}]
)
def test_a_strength_of_nothing_changes_no_image(augment: Mapping[str, object]) -> None:
    found = workers_by_rule(contract(CHANGED | {"augment": augment}, "resnet"), TWO)
    assert found["num_workers"][1] == "rows in memory are gathered, not made"
