"""`compute.threads`: every library works on as many threads as the contract says, from the fit to
the judgement, and is left as it was."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import final

import numpy as np
import polars as pl
import pytest
from threadpoolctl import threadpool_info

import trainwright as tw
from trainwright.cli.check import check_contract
from trainwright.core.files import read_json
from trainwright.core.threads import own_threads, usable_cores, use_threads
from trainwright.tracking.events import Event, Validated

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.torch

ROWS = 20_000
KINDS = {
    "boosting": "max_trees: 60",
    "xgboost": "max_trees: 60",
    "catboost": "max_trees: 20, depth: 12",
    "forest": "trees: 20",
    "neighbours": "neighbours: 5",
    "linear": "",
    "mlp": "hidden: [512, 512]",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("rows")
    draw = np.random.default_rng(0)
    values = draw.normal(size=(ROWS, 8))
    target = np.sin(values[:, 0]) + values @ draw.normal(size=8) + draw.normal(size=ROWS)
    columns = {f"x{number}": values[:, number] for number in range(8)}
    pl.DataFrame({**columns, "y": target}).write_csv(folder / "rows.csv")
    return folder


def contract_of(kind: str, folder: Path) -> Path:
    training = "training: {num_epochs: 1, batch_size: 2048}\n" if kind == "mlp" else ""
    path = folder / f"{kind}.yaml"
    path.write_text(
        "data: {path: rows.csv, target: y}\n"
        f"model: {{kind: {kind}, {KINDS[kind]}}}\n"
        f"{training}metric: {{target: dummy, resamples: 100}}\n"
    )
    return path


@contextmanager
def work() -> Iterator[list[float]]:
    """Of the CPU time of the block, the share of all threads but this one."""
    shares: list[float] = []
    own, all_threads = time.thread_time_ns(), time.process_time_ns()
    yield shares
    own, all_threads = time.thread_time_ns() - own, time.process_time_ns() - all_threads
    shares.append(1 - own / all_threads)


@pytest.mark.parametrize("kind", KINDS)
def test_a_fit_works_on_the_threads_of_its_contract(kind: str, folder: Path) -> None:
    if kind in ("xgboost", "catboost"):
        pytest.importorskip(kind)
    prepared = tw.prepare(contract_of(kind, folder))
    shares = {}
    for threads in (1, 2):
        override = f"compute.threads={threads}"
        with work() as share:
            fitted = tw.fit(prepared, overrides=[override], runs=folder / "runs", progress=False)
            assert np.isfinite(fitted.score)
        (shares[threads],) = share
        assert read_json(fitted.folder / "plan.json")["threads"] == threads
        assert read_json(fitted.folder / "record.json")["threads"]["used"] == threads
    print(kind, shares)
    assert shares[1] < 0.05
    if len(os.sched_getaffinity(0)) > 1:
        assert shares[2] > 0.1


@final
class Seen:
    """What a run sees of its threads at each validation."""

    def __init__(self) -> None:
        self.threads: set[tuple[int, int]] = set()

    def observe(self, event: Event) -> None:
        if isinstance(event, Validated):
            self.threads.add((torch.get_num_threads(), usable_cores()))


def blas_threads() -> list[int]:
    return [one["num_threads"] for one in threadpool_info()]


def test_a_run_leaves_every_library_with_the_threads_it_had(folder: Path) -> None:
    before = (torch.get_num_threads(), usable_cores(), blas_threads(), dict(os.environ))
    seen = Seen()
    contract = contract_of("mlp", folder)
    tw.fit(contract, overrides=["compute.threads=3"], runs=folder / "runs", observers=[seen])
    assert seen.threads == {(3, 3)}
    assert (torch.get_num_threads(), usable_cores(), blas_threads(), dict(os.environ)) == before
    bad = ["compute.threads=3", "data.target=nothing"]
    with pytest.raises(tw.Mistake):
        tw.train(contract, overrides=bad, runs=folder / "runs")
    assert (torch.get_num_threads(), usable_cores(), blas_threads(), dict(os.environ)) == before


def test_what_is_open_takes_the_threads_of_the_run_around_it() -> None:
    outside = usable_cores()
    with own_threads(3):
        assert (usable_cores(), torch.get_num_threads()) == (3, 3)
        with own_threads():
            assert usable_cores() == 3
            use_threads(1)
            assert (usable_cores(), torch.get_num_threads()) == (1, 1)
            use_threads("auto")
            assert (usable_cores(), torch.get_num_threads()) == (3, 3)
        assert usable_cores() == 3
    use_threads(7)
    assert usable_cores() == outside


@pytest.mark.parametrize(("asked", "threads"), [("", 2), ("4", 4)])
def test_torch_keeps_to_the_quota_of_a_container_unless_told_otherwise(
    asked: str, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trainwright.core.threads.cpu_quota", lambda: 2.5)
    monkeypatch.delenv("OMP_NUM_THREADS")
    if asked:
        monkeypatch.setenv("OMP_NUM_THREADS", asked)
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    try:
        with own_threads():
            assert torch.get_num_threads() == threads
        assert torch.get_num_threads() == 4
    finally:
        torch.set_num_threads(before)


def test_a_check_says_nothing_of_threads(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = contract_of("linear", folder)
    assert check_contract(path, (), folder / "runs") in (0, 4)
    assert "threads" not in "".join(capsys.readouterr())
    with pytest.raises(tw.Mistake, match="at least 1"):
        check_contract(path, ("compute.threads=0",), folder / "runs")
