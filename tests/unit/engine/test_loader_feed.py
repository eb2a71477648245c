"""A feed from a `DataLoader` goes on with the batches that an unbroken run would have had."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import Tensor, nn  # noqa: E402
from torch.utils.data import DataLoader, Dataset  # noqa: E402

import trainwright as tw  # noqa: E402
from trainwright.checkpoint.state import Snapshot  # noqa: E402
from trainwright.core.errors import DataChanged  # noqa: E402
from trainwright.engine.loader_feed import count_rows  # noqa: E402
from trainwright.run.script.job_settings import compare_settings, describe_job  # noqa: E402

pytestmark = pytest.mark.torch


class Noisy(Dataset[dict[str, Tensor]]):
    """Rows with an augmentation that draws from two generators of the process."""

    def __len__(self) -> int:
        return 22

    def __getitem__(self, row: int) -> dict[str, Tensor]:
        x = torch.full((3,), float(row)) / 22 + 0.1 * torch.randn(3) + 0.1 * random.random()
        return {"x": x, "y": x.sum()}


def make_job(folder: Path, batches: object, last: int) -> tw.Job:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.3), nn.Linear(4, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)

    def objective(model: nn.Module, batch: dict[str, Tensor]) -> tw.LossSum:
        error = model(batch["x"]).squeeze(1) - batch["y"]
        return tw.LossSum(error.square().sum(), len(error))

    feed = tw.LoaderFeed(batches, accumulate=2, seed=3)  # type: ignore[arg-type]
    return tw.Job(
        model=model,
        feed=feed,
        step=tw.OptimizerStep(model, objective, optimizer),  # type: ignore[arg-type]
        stop_rules=(tw.StepLimit(last),),
        checkpoints=tw.Checkpoints(folder, keep_top_k=1),
        state={
            "model": tw.ModuleState(model),
            "optimizer": tw.OptimizerState(optimizer, model.named_parameters()),
            "random": tw.RandomState(),
            "feed": feed,
        },
    )


def loader(kind: str) -> DataLoader[dict[str, Tensor]]:
    match kind:
        case "shuffled":
            return DataLoader(Noisy(), batch_size=4, shuffle=True)
        case "own generator":
            own = torch.Generator().manual_seed(9)
            return DataLoader(Noisy(), batch_size=4, shuffle=True, generator=own)
        case _:
            return DataLoader(Noisy(), batch_size=4, shuffle=True, num_workers=1)


def fitted_weights(job: tw.Job) -> list[object]:
    tw.fit(job, progress=False)
    return [tensor.tolist() for tensor in job.model.state_dict().values()]


@pytest.mark.parametrize("kind", ["shuffled", "own generator", "worker"])
def test_a_resume_ends_with_the_bits_of_the_unbroken_run(kind: str, tmp_path: Path) -> None:
    """Three steps a pass, of two batches, the last of which is short."""
    unbroken = fitted_weights(make_job(tmp_path / "unbroken", loader(kind), 8))
    for cut in (2, 3, 7) if kind != "worker" else (7,):
        fitted_weights(make_job(tmp_path / f"cut{cut}", loader(kind), cut))
        torch.manual_seed(cut)  # what another process would have there
        assert fitted_weights(make_job(tmp_path / f"cut{cut}", loader(kind), 8)) == unbroken


def test_passes_differ_and_a_step_ends_with_its_pass() -> None:
    feed = tw.LoaderFeed(DataLoader(Noisy(), batch_size=4, shuffle=True), accumulate=4)
    steps = [feed.next_step() for _ in range(4)]
    assert [(step.rows, step.epoch) for step in steps] == [(16, 0), (6, 0), (16, 1), (6, 1)]
    first, again = steps[0].micro_batches[0], steps[2].micro_batches[0]
    assert not torch.equal(first["x"], again["x"])  # type: ignore[call-overload]


def test_reading_leaves_the_random_numbers_of_the_training_as_they_are() -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    tw.LoaderFeed(DataLoader(Noisy(), batch_size=4, shuffle=True)).next_step()
    assert torch.equal(torch.rand(3), expected)


def test_a_list_of_batches_is_an_iterable(tmp_path: Path) -> None:
    batches = [{"x": torch.randn(4, 3), "y": torch.randn(4)} for _ in range(3)]
    whole = fitted_weights(make_job(tmp_path / "whole", batches, 5))
    fitted_weights(make_job(tmp_path / "cut", batches, 3))
    assert fitted_weights(make_job(tmp_path / "cut", batches, 5)) == whole


class Unrepeatable:
    """A stream that never gives the same twice."""

    def __init__(self) -> None:
        self.seen = 0

    def __iter__(self) -> Iterator[dict[str, Tensor]]:
        for _ in range(20):
            self.seen += 1
            yield {"x": torch.full((4, 3), float(self.seen)), "y": torch.zeros(4)}


def test_a_stream_that_cannot_be_repeated_is_refused_at_a_resume(tmp_path: Path) -> None:
    stream = Unrepeatable()
    fitted_weights(make_job(tmp_path, stream, 3))
    with pytest.raises(DataChanged, match="batch 6 of pass 1"):
        tw.fit(make_job(tmp_path, stream, 5), progress=False)


def test_a_generator_that_has_ended_is_named(tmp_path: Path) -> None:
    batches = ({"x": torch.randn(4, 3), "y": torch.randn(4)} for _ in range(4))
    with pytest.raises(tw.Mistake, match="empty") as refused:
        tw.fit(make_job(tmp_path, batches, 5), progress=False)
    assert "starts again" in refused.value.problems[0].expected


def test_batches_without_tensors_are_named() -> None:
    with pytest.raises(tw.Mistake, match="no tensor"):
        tw.LoaderFeed([["a", "b"]]).next_step()


def test_the_position_must_be_in_the_state(tmp_path: Path) -> None:
    job = make_job(tmp_path / "kept", loader("shuffled"), 2)
    state = {key: part for key, part in job.state.items() if key != "feed"}
    with pytest.raises(tw.Mistake, match="lack the feed"):
        tw.fit(replace(job, state=state))
    assert not (tmp_path / "kept").exists()


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"batch_size": 2, "shuffle": True}, "feed.batches.batch_size"),
        ({"batch_size": 4, "shuffle": False}, "feed.batches.sampler"),
        ({"batch_size": 4, "shuffle": True, "drop_last": True}, "feed.batches.drop_last"),
    ],
)
def test_a_resume_with_another_loader_names_what_differs(
    options: dict[str, Any], named: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tw.fit(make_job(tmp_path, loader("shuffled"), 2), progress=False)
    other: DataLoader[dict[str, Tensor]] = DataLoader(Noisy(), **options)
    with pytest.raises(tw.Mistake) as refused:
        tw.fit(make_job(tmp_path, other, 8), progress=False)
    assert [one.path for one in refused.value.problems] == [named]
    ended = tw.fit(make_job(tmp_path, other, 8), progress=False, changed="record")
    assert ended.progress.step == 8
    assert named in capsys.readouterr().err


class Rows(Dataset[Tensor]):
    """Each row is its own number."""

    def __init__(self, count: int = 12) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, row: int) -> Tensor:
        return torch.tensor([float(row)])


def test_other_batches_go_on_behind_the_rows_that_were_trained_on() -> None:
    first = tw.LoaderFeed(DataLoader(Rows(), batch_size=4))
    for _ in range(5):
        first.next_step()
    second = tw.LoaderFeed(DataLoader(Rows(), batch_size=2))
    second.restore(first.snapshot())
    with pytest.raises(DataChanged, match='changed="record"'):
        second.seek(20)
    second.restore(first.snapshot())
    second.take_other_batches(allowed=True)
    second.seek(20)
    (batch,) = second.next_step().micro_batches
    assert batch.flatten().tolist() == [8.0, 9.0]  # type: ignore[attr-defined]


def test_another_number_of_rows_is_named(tmp_path: Path) -> None:
    before = describe_job(make_job(tmp_path, DataLoader(Rows(12), batch_size=4), 2))
    now = describe_job(make_job(tmp_path, DataLoader(Rows(10), batch_size=4), 2))
    assert compare_settings(before, now) == [("feed.batches.rows", 12, 10)]
    kept = {name: one for name, one in before.items() if not name.startswith("feed.batches")}
    assert compare_settings(kept, now) == []


def test_a_position_of_an_earlier_version_is_taken() -> None:
    feed = tw.LoaderFeed(DataLoader(Rows(), batch_size=4))
    feed.next_step()
    position = feed.snapshot().values["position"]
    again = tw.LoaderFeed(DataLoader(Rows(), batch_size=4))
    again.restore(Snapshot(values={"position": position}))
    again.seek(4)
    (batch,) = again.next_step().micro_batches
    assert batch.flatten().tolist() == [4.0, 5.0, 6.0, 7.0]  # type: ignore[attr-defined]


def with_workers(dataset: Dataset[Any], *, persistent: bool) -> DataLoader[Any]:
    return DataLoader(
        dataset, batch_size=4, shuffle=True, num_workers=1, persistent_workers=persistent
    )


class Plain(Noisy):
    """The same rows each time."""

    def __getitem__(self, row: int) -> dict[str, Tensor]:
        x = torch.full((3,), float(row)) / 22
        return {"x": x, "y": x.sum()}


def test_persistent_workers_that_draw_random_numbers_are_refused(tmp_path: Path) -> None:
    job = make_job(tmp_path / "kept", with_workers(Noisy(), persistent=True), 2)
    before = torch.get_rng_state()
    with pytest.raises(tw.Mistake, match="could not repeat the random numbers") as refused:
        tw.fit(job, progress=False)
    assert [one.fix for one in refused.value.problems] == ["persistent_workers=False"]
    assert not (tmp_path / "kept").exists()
    assert torch.equal(torch.get_rng_state(), before)


def test_persistent_workers_that_draw_nothing_go_on_to_the_same_bits(tmp_path: Path) -> None:
    def job(folder: str, last: int) -> tw.Job:
        return make_job(tmp_path / folder, with_workers(Plain(), persistent=True), last)

    whole = fitted_weights(job("whole", 5))
    fitted_weights(job("cut", 4))
    assert fitted_weights(job("cut", 5)) == whole


def test_the_rows_of_a_batch_are_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[int] = []

    def count(batch: object) -> int:
        counted.append(rows := count_rows(batch))
        return rows

    monkeypatch.setattr("trainwright.engine.loader_feed.count_rows", count)
    batches = [torch.ones(rows, 3) for rows in (4, 4, 2)]
    feed = tw.LoaderFeed(batches, accumulate=2, count_targets=len)
    assert [feed.next_step().rows for _ in range(4)] == [8, 2, 8, 2]
    assert counted == [4, 4, 2, 4, 4, 2]
    assert feed.samples == 20
