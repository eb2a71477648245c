"""A budget holds over all attempts, also over those that were killed, for networks and trees."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from command import CONTRACT, NETWORK, command, inside, write_project
from deadlines import within
from faults.zygote import Zygote, kill
from trainwright.core.files import read_json, write_json

FAMILIES = [
    pytest.param(CONTRACT, "tree", id="trees"),
    pytest.param(NETWORK, "step.done", id="network", marks=pytest.mark.torch),
]
BUDGET = "budget: {hours: 1, price_per_hour: 3600}\n"


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    with inside(tmp_path):
        yield tmp_path


Killed = Callable[[str, str], dict[str, Any]]


@pytest.fixture
def killed(folder: Path, zygote: Zygote) -> Killed:
    """The record of a run that is killed once the record says that it trains."""

    def begin(contract: str, point: str) -> dict[str, Any]:
        write_project(folder, contract + BUDGET)
        words = ("train", "small.yaml", "--run", "one")
        child = zygote.start(words, folder, fault=f"{point}:2:delay=60")
        deadline = time.monotonic() + within(50)
        while not written().get("training_seconds", {}).get("one"):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        assert kill(child)
        assert zygote.wait(child).code == -signal.SIGKILL
        return written()

    return begin


def written() -> dict[str, Any]:
    path = Path("runs/one/record.json")
    record: dict[str, Any] = read_json(path) if path.exists() else {}
    return record


@pytest.mark.parametrize(("contract", "point"), FAMILIES)
def test_a_killed_attempt_stands_in_time_and_price(
    killed: Killed, contract: str, point: str
) -> None:
    first = killed(contract, point)
    assert "ending" not in first
    assert first["attempts"][0]["seconds"] == first["seconds"] >= 0.9
    assert first["seconds"] >= first["training_seconds"]["one"] > 0
    assert command("resume", "runs/one").code in (0, 3)
    record = written()
    seconds = [attempt["seconds"] for attempt in record["attempts"]]
    assert seconds[0] == first["seconds"]
    assert record["seconds"] == pytest.approx(sum(seconds))
    assert record["price"] == pytest.approx(record["seconds"])
    assert record["training_seconds"]["one"] > first["training_seconds"]["one"]


@pytest.mark.parametrize(("contract", "point"), FAMILIES)
def test_what_a_killed_attempt_has_spent_is_gone_from_the_budget(
    killed: Killed, contract: str, point: str
) -> None:
    record = killed(contract, point)
    # As if it had trained for an hour since its last checkpoint.
    record["training_seconds"]["one"] += 3600.0
    write_json(Path("runs/one/record.json"), record)
    ran = command("resume", "runs/one")
    assert ran.code in (0, 3), ran.err
    assert "(budget)" in ran.err
