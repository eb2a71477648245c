"""Every distribution strategy passes the same checks, with one, two and four ranks."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from torch import Tensor, nn  # noqa: E402

from faults.tiers import in_test  # noqa: E402
from trainwright.core.errors import Mistake, PeerLost  # noqa: E402
from trainwright.distributed.strategy import Packet, SingleProcess, Strategy  # noqa: E402
from trainwright.testing.fake_strategy import FakeRanks, FakeStrategy  # noqa: E402
from trainwright.testing.strategy_conformance import CHECKS  # noqa: E402

pytestmark = [pytest.mark.torch, pytest.mark.usefixtures("no_search_for_garbage")]


@pytest.mark.parametrize("check", CHECKS)
def test_a_single_process(check: str) -> None:
    CHECKS[check](SingleProcess())


@pytest.mark.parametrize("world_size", [1, 2, 4])
@pytest.mark.parametrize("check", [name for name in CHECKS if name != "dropout"])
def test_threads(check: str, world_size: int) -> None:
    found = FakeRanks(world_size).run(CHECKS[check])
    assert found == [found[0]] * world_size


@pytest.mark.skipif(not torch.distributed.is_available(), reason="torch without distributed")
@pytest.mark.parametrize(
    ("strategy", "world_size"),
    in_test(4, [*(("ddp", n) for n in (2, 3, 4)), ("hsdp", 4), *(("fsdp", n) for n in (2, 3, 4))]),
)
def test_processes(strategy: str, world_size: int, tmp_path: Path) -> None:
    from gloo_ranks import REFUSED, check_all

    found = check_all(strategy, world_size, tmp_path)
    for name in (name for name in CHECKS if name not in REFUSED[strategy]):
        of_ranks = [of_rank.get(name, "not reached") for of_rank in found]
        assert not any(isinstance(one, str) for one in of_ranks), (name, of_ranks)
        assert of_ranks == [of_ranks[0]] * world_size, name


def test_one_packet_a_step() -> None:
    """Also where memory ran out: then one for each series of passes."""

    def packets(check: str) -> list[int]:
        strategies: list[FakeStrategy] = []

        def run(strategy: Strategy) -> None:
            assert isinstance(strategy, FakeStrategy)
            strategies.append(strategy)
            CHECKS[check](strategy)

        FakeRanks(2).run(run)
        return [one.packets for one in strategies]

    assert packets("update") == [3 * 2 * 4] * 2
    assert packets("out of memory") == [4 * (4 + 1)] * 2


def test_a_rank_that_fails_ends_the_others() -> None:
    others: list[str] = []

    def run(strategy: Strategy) -> None:
        if strategy.rank == 1:
            raise ValueError("of its own")
        try:
            CHECKS["update"](strategy)
        except PeerLost as error:
            others.append(str(error))
            raise

    with pytest.raises(ValueError, match="of its own"):
        FakeRanks(4).run(run)
    assert len(others) == 3


class Broken:
    """A strategy of threads that one thing is wrong with."""

    def __init__(self, strategy: Strategy, fault: str) -> None:
        self._strategy = strategy
        self._fault = fault
        self.rank, self.world_size = strategy.rank, strategy.world_size
        if fault == "rank of another":
            self.rank = 0
        self.share, self.part = strategy.share, strategy.part
        self.passes_together = strategy.passes_together
        self.device = strategy.device
        self.micro_batch, self.gradient_norm = strategy.micro_batch, strategy.gradient_norm
        self._gather = strategy.gather

    def wrap(self, model: nn.Module, blocks: Iterable[nn.Module] = ()) -> nn.Module:
        if self._fault != "weights of its own":
            return self._strategy.wrap(model)
        own = [one.detach().clone() for one in model.parameters()]
        self._strategy.wrap(model)
        with torch.no_grad():
            for parameter, value in zip(model.parameters(), own, strict=True):
                parameter.copy_(value)
        return model

    def gather(self, rows: Tensor) -> Tensor:
        found = self._gather(rows)
        return rows.detach() if self._fault == "rows of its own" else found

    def reduce(self, packet: Packet) -> Packet:
        own = [parameter.grad for parameter in self._strategy._parameters]
        told = self._strategy.reduce(packet)
        for parameter, gradient in zip(self._strategy._parameters, own, strict=True):
            if self._fault == "gradients of its own" and not told.out_of_memory:
                parameter.grad = gradient
            elif self._fault == "means for sums" and parameter.grad is not None:
                parameter.grad = parameter.grad / self.world_size
        if self._fault.startswith("untold "):
            field = self._fault.removeprefix("untold ")
            told = told._replace(**{field: getattr(packet, field)})
        return told


FAULTS = {
    "weights of its own": "update",
    "gradients of its own": "update",
    "means for sums": "update",
    "rank of another": "protocol",
    "rows of its own": "gather",
    "untold loss": "update",
    "untold targets": "update",
    "untold nonfinite": "packet",
    "untold out_of_memory": "packet",
    "untold stop": "stop by the clock",
    "untold save": "stop on a signal",
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_broken_strategy_is_found(fault: str) -> None:
    check = CHECKS[FAULTS[fault]]
    with pytest.raises((AssertionError, PeerLost, Mistake)):
        FakeRanks(2).run(lambda strategy: check(Broken(strategy, fault)))
