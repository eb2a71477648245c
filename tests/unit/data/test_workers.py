"""Workers change nothing but the time, and their deaths nothing but what is told."""

from __future__ import annotations

import os
import runpy
import signal
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import trainwright as tw  # noqa: E402
from deadlines import within  # noqa: E402
from guide import GUIDE, blocks  # noqa: E402
from made_data import write_token_project  # noqa: E402
from trainwright.contract.reading.read_contract import read_contract  # noqa: E402
from trainwright.contract.sections.data.data_traits import Loading  # noqa: E402
from trainwright.contract.sections.data.images import Augment  # noqa: E402
from trainwright.core.errors import PeerLost  # noqa: E402
from trainwright.data.base.counter_rng import Positions  # noqa: E402
from trainwright.data.loading.augment import ImageDataset  # noqa: E402
from trainwright.data.loading.batch import Batch  # noqa: E402
from trainwright.data.loading.feed import Feed, StepBatches  # noqa: E402
from trainwright.data.loading.pixel_rows import ResidentPixels  # noqa: E402
from trainwright.data.loading.worker_pool import Workers  # noqa: E402

pytestmark = pytest.mark.torch

ROWS = 60
PAGE = GUIDE / "loading.md"
TRAINED = """
data: {kind: tokens, path: text.txt}
model: {kind: gpt, layers: 1, heads: 2, width: 64, context: 32}
training: {num_epochs: 1, batch_size: 8, stop: {max_steps: 3}}
metric: {target: dummy, resamples: 100}
"""
EVERYTHING = Augment(flip=True, crop=1, cutout=2, mixup=0.4, cutmix=1.0)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trainwright.data.loading.feed._BLOCK_BYTES", 12 * 30 * 4)


def images() -> ImageDataset:
    pixels = np.random.default_rng(0).integers(1, 255, (ROWS, 1, 6, 5), np.uint8)
    resident = ResidentPixels(torch.from_numpy(pixels))
    return ImageDataset(resident, torch.arange(ROWS), EVERYTHING, seed=5)


def feed_of(workers: int, **given: object) -> Feed:
    store = images()
    return Feed(Workers(store, workers, **given) if workers else store, 4, 2, seed=3)


def bits(step: StepBatches) -> list[object]:
    tensors = [tensor for batch in step.micro_batches for tensor in batch]
    found = [(tensor.dtype, tuple(tensor.shape), tensor.numpy().tobytes()) for tensor in tensors]
    return [found, step.targets, step.rows, step.samples, step.epoch]


def steps(feed: Feed, count: int) -> list[list[object]]:
    return [bits(feed.next_step()) for _ in range(count)]


def is_gone(pid: int) -> bool:
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return True
    return status.rpartition(")")[2].split()[0] in "ZX"


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_any_number_of_workers_gives_the_same_bits(workers: int) -> None:
    whole = steps(feed_of(0), 40)
    with closing(feed_of(workers)) as feed:
        assert steps(feed, 40) == whole


@pytest.mark.parametrize(("before", "after"), [(2, 0), (0, 2), (1, 2), (2, 1)])
@pytest.mark.parametrize("cut", [1, 7, 13])
def test_a_feed_goes_on_with_another_number(before: int, after: int, cut: int) -> None:
    whole = steps(feed_of(0), 30)
    with closing(feed_of(before)) as first, closing(feed_of(after)) as second:
        begun = steps(first, cut)
        second.seek(first.samples)
        assert begun + steps(second, 30 - cut) == whole


def test_a_seek_leaves_what_was_under_way() -> None:
    whole = steps(feed_of(0), 30)
    with closing(feed_of(2)) as feed:
        steps(feed, 5)
        pids = pids_of(feed._loader)
        feed.seek(8)
        assert steps(feed, 10) == whole[1:11]
        assert all(map(is_gone, pids))


def pids_of(workers: Workers) -> tuple[int, ...]:
    """The processes, if they are started."""
    return tuple(worker.pid for worker in workers._workers)


def test_what_was_given_is_not_written_over() -> None:
    with closing(feed_of(1)) as feed:
        kept = [feed.next_step() for _ in range(20)]
        assert [bits(step) for step in kept] == steps(feed_of(0), 20)


def test_rows_out_of_turn_leave_the_cursor() -> None:
    with closing(feed_of(2)) as feed:
        steps(feed, 3)
        batches = list(feed.from_start(12))
        assert sum(len(batch[0]) for batch in batches) == 12
        assert bits(feed.next_step()) == steps(feed_of(0), 4)[3]


class Told(list[tuple[str, str]]):
    def __call__(self, kind: str, message: str) -> None:
        self.append((kind, message))


@pytest.mark.row("F-35")
@pytest.mark.timeout(30)
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
@pytest.mark.parametrize("victim", [0, 1])
def test_a_killed_worker_is_named_and_its_rows_are_made_again(
    number: signal.Signals, victim: int
) -> None:
    told = Told()
    with closing(feed_of(2, tell=told)) as feed:
        begun = steps(feed, 3)
        os.kill(pids_of(feed._loader)[victim], number)
        assert begun + steps(feed, 37) == steps(feed_of(0), 40)
    (found,) = told
    assert found[0] == "worker_restarted"
    assert f"data worker {victim} " in found[1]
    assert f"({number.name})" in found[1]
    assert "had row" in found[1]


@pytest.mark.row("F-35")
def test_a_stopped_worker_is_killed_and_started_again() -> None:
    told = Told()
    with closing(feed_of(2, loading=Loading(hang_seconds=0.3), tell=told)) as feed:
        begun = steps(feed, 3)
        os.kill(pids_of(feed._loader)[0], signal.SIGSTOP)
        assert begun + steps(feed, 27) == steps(feed_of(0), 30)
    assert any("did not answer for 0.3 s" in message for _, message in told)


@pytest.mark.row("F-35")
def test_one_death_too_many_ends_the_run_with_a_reason() -> None:
    with closing(feed_of(2, loading=Loading(restarts=2))) as feed:
        pids: list[int] = []

        def kill_again_and_again() -> None:
            for _ in range(60):
                feed.next_step()
                pids[:] = pids_of(feed._loader)
                os.kill(pids[0], signal.SIGKILL)

        with pytest.raises(PeerLost, match=r"signal 9 \(SIGKILL\).*restarts is 2") as caught:
            kill_again_and_again()
        assert caught.value.exit_code == 16
        assert pids_of(feed._loader) == ()
        assert all(map(is_gone, pids))
        # The run can go on in the same process, too.
        feed.seek(0)
        assert steps(feed, 5) == steps(feed_of(0), 5)


class Failing:
    """Rows of which one cannot be made."""

    rows, row_bytes = ROWS, 8

    def __init__(self, where: Callable[[], bool]) -> None:
        self._where = where

    def take(self, epoch: int, rows: Positions) -> Batch:
        if 17 in rows and self._where():
            raise ValueError("a cell is torn")
        return (torch.from_numpy(rows),)


@pytest.mark.row("F-35")
@pytest.mark.parametrize("workers", [0, 2])
def test_an_error_comes_with_its_type_and_its_row(workers: int) -> None:
    store = Failing(lambda: True)
    with closing(Feed(Workers(store, workers) if workers else store, 4, seed=1)) as feed:
        with pytest.raises(ValueError, match="a cell is torn") as caught:
            steps(feed, 15)
        assert caught.value.__notes__ == ["while it made training row 17 of epoch 0"]


def test_an_error_of_a_worker_alone_is_told_and_passed_over() -> None:
    here, told = os.getpid(), Told()
    store = Failing(lambda: os.getpid() != here)
    with closing(Feed(Workers(store, 2, tell=told), 4, seed=1)) as feed:
        assert steps(feed, 15) == steps(Feed(store, 4, seed=1), 15)
    ((kind, message),) = told
    assert kind == "worker_failed"
    assert "ValueError: a cell is torn" in message


def test_closing_leaves_no_process_and_can_begin_again() -> None:
    feed = feed_of(2)
    first = steps(feed, 4)
    pids = pids_of(feed._loader)
    feed.close()
    assert all(map(is_gone, pids))
    assert first + steps(feed, 4) == steps(feed_of(0), 8)
    feed.close()


class Computed:
    """Rows that are computed by operations which torch divides among threads."""

    rows, row_bytes = ROWS, 8

    def take(self, epoch: int, rows: Positions) -> Batch:
        square = torch.ones(400, 400)
        torch.nn.functional.conv2d(torch.ones(4, 3, 32, 32), torch.ones(8, 3, 3, 3))
        mean = (square @ square).softmax(1).sort().values.mean()
        return (torch.from_numpy(rows) + mean,)


@pytest.mark.row("F-35")
def test_a_worker_computes_after_a_training_on_several_threads(tmp_path: Path) -> None:
    """A fork that waits for the threads of its parent would be killed, and end the feed."""
    before, told = torch.get_num_threads(), Told()
    contract = write_token_project(tmp_path, TRAINED, sentences=100)
    loading = Loading(hang_seconds=within(20), restarts=0)
    torch.set_num_threads(2)
    try:
        tw.train(contract, runs=tmp_path / "runs")
        Computed().take(0, np.arange(4))
        with closing(Feed(Workers(Computed(), 2, loading, tell=told), 4, seed=1)) as feed:
            assert sum(feed.next_step().rows for _ in range(15)) == ROWS
    finally:
        torch.set_num_threads(before)
    assert told == []


class Endless:
    """Rows that take a minute."""

    rows, row_bytes = ROWS, 8

    def take(self, epoch: int, rows: Positions) -> Batch:
        time.sleep(60)
        return (torch.from_numpy(rows),)


@pytest.mark.row("F-35")
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_workers_die_with_their_parent_whatever_they_do(how: signal.Signals) -> None:
    reading, writing = os.pipe()
    parent = os.fork()
    if parent == 0:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        busy, idle = Workers(Endless(), 2), Workers(images(), 1)
        for workers in (busy, idle):
            workers.ask(0, np.arange(4))
        os.write(writing, " ".join(map(str, pids_of(busy) + pids_of(idle))).encode())
        time.sleep(60)
        os._exit(0)
    pids = [int(pid) for pid in os.read(reading, 100).split()]
    assert len(pids) == 3
    assert not any(map(is_gone, pids))
    os.kill(parent, how)
    os.waitpid(parent, 0)
    deadline = time.monotonic() + within(10)
    while not all(map(is_gone, pids)) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert all(map(is_gone, pids))


def test_the_examples_of_the_page_are_true(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (contract,) = blocks(PAGE, "yaml")
    (tmp_path / "contract.yaml").write_text(contract)
    read_contract(tmp_path / "contract.yaml")
    monkeypatch.chdir(tmp_path)
    scripts = blocks(PAGE, "python")
    assert len(scripts) == 2
    for script in scripts:
        (tmp_path / "script.py").write_text(script)
        runpy.run_path(str(tmp_path / "script.py"))


def test_shared_memory_has_no_name_that_could_stay() -> None:
    before = set(Path("/dev/shm").iterdir())
    with closing(feed_of(2)) as feed:
        feed.next_step()
        assert set(Path("/dev/shm").iterdir()) == before
