"""Frozen weights are stored once, and every checkpoint is still whole."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from torch import Tensor, nn  # noqa: E402

import trainwright as tw  # noqa: E402
from trainwright.checkpoint.background_save import BackgroundCheckpoints  # noqa: E402
from trainwright.checkpoint.copies.recovery import (  # noqa: E402
    CopyRequirements,
    Recovered,
    recover_checkpoints,
)
from trainwright.checkpoint.frozen_weights import (  # noqa: E402
    BaseTensor,
    FrozenBase,
    NotInBase,
)
from trainwright.checkpoint.states.copy_fence import Fence  # noqa: E402
from trainwright.checkpoint.storages.object_storage import open_objects  # noqa: E402
from trainwright.checkpoint.store import Checkpoints, Loaded  # noqa: E402
from trainwright.core.errors import Mistake, NoValidCheckpoint  # noqa: E402
from trainwright.core.progress import Progress  # noqa: E402
from trainwright.doctor.verify_checkpoints import verify_checkpoints  # noqa: E402

pytestmark = pytest.mark.torch

SIDE, LAYERS, STEPS = 1024, 2, 4


class LowRank(nn.Module):
    """A frozen linear layer with a trained update of rank 1 (Hu et al. 2021, arXiv:2106.09685)."""

    def __init__(self, side: int) -> None:
        super().__init__()
        self.frozen = nn.Linear(side, side).requires_grad_(False)
        self.down = nn.Parameter(torch.randn(1, side) / side)
        self.up = nn.Parameter(torch.zeros(side, 1))

    def forward(self, x: Tensor) -> Tensor:
        return self.frozen(x) + x @ self.down.T @ self.up.T


class Stop(Exception):
    pass


class Training:
    def __init__(self, folder: Path, mean: str = "", side: int = SIDE, origin: str = "") -> None:
        torch.manual_seed(0)
        self.model = nn.Sequential(*(LowRank(side) for _ in range(LAYERS)))
        optimizer = torch.optim.AdamW(
            [p for p in self.model.parameters() if p.requires_grad], lr=1e-3, fused=True
        )
        weights = tw.ModuleState(self.model, origin)
        self.ema = tw.EMA(self.model, 0.9)
        self.stop_at = STEPS + 1
        self.before: Callable[[Progress], object] = lambda progress: None
        rows = torch.randn(64, side)
        step = tw.OptimizerStep(self.model, self.objective, optimizer)
        state = {
            "model": weights,
            "optimizer": tw.OptimizerState(optimizer, self.model.named_parameters()),
            "random": tw.RandomState(),
        }
        averages: tuple[tw.AverageUpdate, ...] = ()
        if mean:
            averages = (tw.AverageUpdate(self.ema),)
            state |= {"mean": tw.EMAState(self.ema)}
            state |= {"evaluated": tw.EvaluatedState(self.ema, weights)}
        self.store = Checkpoints(folder, 1, keep_last=99)
        self.job = tw.Job(
            model=self.model,
            feed=tw.Feed([rows], batch_size=8),
            step=step,
            outcome_observers=averages,
            knobs=(self.knob,),
            stop_rules=(tw.StepLimit(STEPS),),
            checkpoints=self.store,
            checkpoint_every=tw.Every(1),
            state=state,
        )

    def knob(self, progress: Progress) -> None:
        self.before(progress)
        if progress.step == self.stop_at:
            raise Stop

    @staticmethod
    def objective(model: nn.Module, batch: tuple[Tensor, ...]) -> tw.LossSum:
        return tw.LossSum((model(batch[0]) - 1).square().sum(), len(batch[0]))

    def fit(self) -> None:
        tw.fit(self.job, progress=False)

    def bits(self) -> dict[str, Tensor]:
        named = dict(self.model.state_dict())
        return {**named, **{f"mean.{name}": one for name, one in self.ema.mean.items()}}


def size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def newest(folder: Path) -> Loaded:
    found = Checkpoints(folder, 1).newest_valid()
    assert isinstance(found, Loaded)
    return found


def assert_equal(one: dict[str, Tensor], other: dict[str, Tensor]) -> None:
    assert one.keys() == other.keys()
    assert [name for name in one if not torch.equal(one[name], other[name])] == []


@pytest.mark.parametrize("mean", ["", "ema"])
def test_a_checkpoint_of_an_adapter_is_below_two_percent_of_its_base(
    mean: str, tmp_path: Path
) -> None:
    training = Training(tmp_path, mean)
    training.fit()
    bases = list(tmp_path.glob("base-*"))
    assert len(bases) == 1
    weights = sum(one.nbytes for one in training.model.parameters() if not one.requires_grad)
    assert bases[0].stat().st_size >= weights
    sizes = [size(path) for path in tmp_path.glob("step-*")]
    assert len(sizes) == STEPS + 1
    assert max(sizes) < 0.02 * weights, max(sizes) / weights
    whole = newest(tmp_path).parts["model"].tensors
    assert_equal(dict(whole), training.model.state_dict())


@pytest.mark.parametrize("mean", ["", "ema"])
@pytest.mark.parametrize("cut", [0, 1, 3])
def test_a_cut_at_any_step_ends_with_the_same_bits(mean: str, cut: int, tmp_path: Path) -> None:
    whole = Training(tmp_path / "whole", mean, side=16)
    whole.fit()
    first = Training(tmp_path / "cut", mean, side=16)
    first.stop_at = cut
    with pytest.raises(Stop):
        first.fit()
    second = Training(tmp_path / "cut", mean, side=16)
    with torch.no_grad():
        for one in second.model.parameters():
            one.add_(1)
    second.fit()
    assert_equal(second.bits(), whole.bits())
    assert len(list((tmp_path / "cut").glob("base-*"))) == 1
    last = tmp_path / "cut" / f"step-{STEPS:010d}" / "model.safetensors"
    assert last.stat().st_size < 16 * 16 * 4 * LAYERS


@pytest.mark.parametrize("fused", [False, True])
def test_what_becomes_trainable_is_written_from_then_on(fused: bool, tmp_path: Path) -> None:
    def thaw(training: Training) -> None:
        layer = training.model[0].frozen.weight
        own = torch.optim.Adam([layer], lr=1e-3, fused=fused)
        training.job.state["own"] = tw.OptimizerState(own, [("layer", layer)])

        def change(progress: Progress) -> None:
            # Frozen again before the checkpoint: that it changed is seen in the values alone.
            if progress.step >= 2:
                layer.grad = torch.full_like(layer, 0.5)
                own.step()
                layer.grad = None

        training.before = change

    whole = Training(tmp_path / "whole", side=16)
    thaw(whole)
    whole.fit()
    cut = Training(tmp_path / "cut", side=16)
    thaw(cut)
    cut.stop_at = 3
    with pytest.raises(Stop):
        cut.fit()
    sizes = [
        (tmp_path / "cut" / f"step-{step:010d}" / "model.safetensors").stat().st_size
        for step in (1, 2, 3)
    ]
    assert sizes[0] == sizes[1] <= sizes[2] - 16 * 16 * 4
    again = Training(tmp_path / "cut", side=16)
    thaw(again)
    again.fit()
    assert_equal(again.bits(), whole.bits())


@pytest.mark.parametrize("elements", [7, 8, 600_000])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("how", ["assigned", "copied"])
def test_another_order_that_torch_does_not_count_is_written(
    how: str, dtype: torch.dtype, elements: int, tmp_path: Path
) -> None:
    model = nn.ParameterList([nn.Parameter(torch.arange(elements).to(dtype), requires_grad=False)])
    store, state = Checkpoints(tmp_path, 1), tw.ModuleState(model)

    def save(step: int) -> None:
        with store.taking():
            shot = {"model": state.snapshot()}
        store.save(step, shot, {})

    save(0)
    weight, version = model[0], model[0]._version
    flipped = weight.data.flip(0)
    if how == "assigned":
        weight.data = flipped
    else:
        weight.data.copy_(flipped)
    assert weight._version == version
    save(1)
    assert torch.equal(newest(tmp_path).parts["model"].tensors["0"], flipped)


def watched(tensor: Tensor) -> FrozenBase:
    """A base that holds the tensor."""
    base = FrozenBase()
    with base.used(is_first=True):
        base.place("weight", tensor)
    base.settle("0" * 64)
    return base


TWO_OF_4096 = torch.ones(4096, dtype=torch.float64)
TWO_OF_4096[0] = 2
MANY_WORDS = torch.arange(200_000)


def ones_at(*places: int) -> Tensor:
    found = torch.zeros(4096, dtype=torch.int64)
    found[list(places)] = 1
    return found


@pytest.mark.parametrize(
    ("value", "other"),
    [
        (TWO_OF_4096, TWO_OF_4096.roll(2048)),
        (MANY_WORDS, MANY_WORDS.roll(1 << 16)),
        (ones_at(0, 4095), ones_at(1, 4094)),
        (torch.zeros(64, dtype=torch.int64), -torch.ones(64, dtype=torch.int64)),
        (torch.arange(13, dtype=torch.uint8), torch.arange(13, dtype=torch.uint8).roll(1)),
        (torch.arange(12.0).bfloat16(), torch.arange(12.0).bfloat16().roll(4)),
        (torch.arange(12.0), torch.arange(12.0).reshape(3, 4)),
        (torch.zeros(8, dtype=torch.int32), torch.zeros(4, dtype=torch.int64)),
    ],
    ids=["far", "blocks", "ends", "inverted", "odd", "bf16", "shape", "dtype"],
)
def test_what_changed_uncounted_is_in_no_base(value: Tensor, other: Tensor) -> None:
    weight = nn.Parameter(value.clone(), requires_grad=False)
    base, version = watched(weight), weight._version
    weight.data = other
    assert weight._version == version
    assert isinstance(base.place("weight", weight), NotInBase)
    weight.data = value.clone()
    assert isinstance(base.place("weight", weight), BaseTensor)


@pytest.mark.parametrize(
    "value",
    [
        torch.arange(200_001.0)[1:],
        torch.arange(13, dtype=torch.uint8)[3:],
        torch.arange(12.0).reshape(3, 4).T,
        torch.tensor(3.0),
        torch.empty(0, 4),
        torch.tensor([True, False, True]),
    ],
    ids=["offset", "odd", "transposed", "scalar", "empty", "bool"],
)
def test_what_is_the_same_stays_in_the_base(value: Tensor) -> None:
    base = watched(value)
    assert isinstance(base.place("weight", value), BaseTensor)


def test_a_base_that_is_missing_or_another_is_refused_and_nothing_is_set_aside(
    tmp_path: Path,
) -> None:
    Training(tmp_path / "one", side=16).fit()
    base = next((tmp_path / "one").glob("base-*"))
    whole = base.read_bytes()
    names = sorted(path.name for path in (tmp_path / "one").iterdir())
    for damaged in (whole[:-1] + bytes([whole[-1] ^ 1]), whole[:-9], None):
        base.unlink()
        if damaged is not None:
            base.write_bytes(damaged)
        with pytest.raises(NoValidCheckpoint, match=r"frozen weights of the run, base-"):
            Checkpoints(tmp_path / "one", 1).newest_valid()
        if damaged is None:
            base.write_bytes(whole)
        assert sorted(path.name for path in (tmp_path / "one").iterdir()) == names
    assert newest(tmp_path / "one").step == STEPS


def test_another_origin_is_refused(tmp_path: Path) -> None:
    first = Training(tmp_path, side=16, origin="net-a, revision 1")
    first.stop_at = 2
    with pytest.raises(Stop):
        first.fit()
    with pytest.raises(Mistake, match="another base") as error:
        Training(tmp_path, side=16, origin="net-b").fit()
    assert "net-a, revision 1" in str(error.value)
    Training(tmp_path, side=16, origin="net-a, revision 1").fit()


def test_the_base_is_copied_with_the_checkpoints_and_comes_back(tmp_path: Path) -> None:
    training = Training(tmp_path / "here", side=16)
    training.fit()
    away = open_objects(f"file://{tmp_path}/away")
    far = training.store.elsewhere(away)
    for name in reversed(training.store.names()):
        far.copy_from(training.store.storage, name)
    assert len(list((tmp_path / "away" / "base").iterdir())) == 1
    shutil.rmtree(tmp_path / "here")
    back = Checkpoints(tmp_path / "here", 1)
    back.copy_from(away, far.names()[0])
    assert_equal(
        dict(newest(tmp_path / "here").parts["model"].tensors), training.model.state_dict()
    )


def test_a_background_save_writes_the_base_once(tmp_path: Path) -> None:
    training = Training(tmp_path, "ema", side=16)
    fence = Fence()
    store = BackgroundCheckpoints(training.store, fence)
    step = training.job.step

    def waiting(batches: object) -> object:
        fence.wait()
        return step(batches)

    job = training.job
    parts = {name: one for name, one in job.state.items() if name != "random"}
    for number in range(3):
        with store.taking():
            shots = {name: one.snapshot() for name, one in parts.items()}
        store.save(number, shots, {})
        waiting(job.feed.next_step())
    store.settled(wait=True)
    assert len(list(tmp_path.glob("base-*"))) == 1
    assert newest(tmp_path).parts["mean"].tensors.keys() == training.ema.mean.keys()
    sizes = [(tmp_path / f"step-{n:010d}" / "mean.safetensors").stat().st_size for n in range(3)]
    assert max(sizes) < 16 * 16 * 4 * LAYERS


def test_a_run_without_frozen_weights_keeps_its_format(tmp_path: Path) -> None:
    training = Training(tmp_path, side=16)
    training.model.requires_grad_(True)
    training.fit()
    assert not list(tmp_path.glob("base-*"))
    manifest = (tmp_path / f"step-{STEPS:010d}" / "manifest.json").read_text()
    assert '"format": 1' in manifest
    assert "bases" not in manifest


def test_verify_reads_the_base(tmp_path: Path) -> None:
    Training(tmp_path, side=16).fit()
    checked = list(verify_checkpoints(tmp_path))
    assert {one.status for one in checked if one.what.startswith("step-")} == {"whole"}
    assert not [one for one in checked if one.what.startswith("base-")]
    base = next(tmp_path.glob("base-*"))
    base.write_bytes(base.read_bytes()[:-1] + b"x")
    checked = list(verify_checkpoints(tmp_path))
    assert {one.status for one in checked if one.what.startswith("step-")} == {"broken"}


def test_a_bucket_alone_brings_the_base_back(tmp_path: Path) -> None:
    training = Training(tmp_path / "here", side=16)
    training.fit()
    away = open_objects(f"file://{tmp_path}/away")
    far = training.store.elsewhere(away)
    for name in reversed(training.store.names()):
        far.copy_from(training.store.storage, name)
    shutil.rmtree(tmp_path / "here")
    (tmp_path / "new").mkdir()
    found = recover_checkpoints(tmp_path / "new", away, CopyRequirements("", 99, False, "min"))
    assert isinstance(found, Recovered)
    assert found.step == STEPS
    assert_equal(dict(newest(tmp_path / "new").parts["model"].tensors), training.model.state_dict())
