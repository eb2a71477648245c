"""`distributed.strategy: auto`: the fastest of those whose processes fit into their devices."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

from trainwright.contract.rules.distributed_rules import RankStrategy
from trainwright.contract.sections.section import settled
from trainwright.core.errors import ContractMistake
from trainwright.core.files import Json
from trainwright.core.formatting import show_bytes, show_seconds
from trainwright.distributed.link import Link
from trainwright.model.input_shape import Shape
from trainwright.planner.communication import exchange_seconds
from trainwright.planner.plan import Plan
from trainwright.planner.resolve.rank_choices import STRATEGY
from trainwright.planner.resolve.training_choices import Choice


class RankSpeeds(NamedTuple):
    """Measured seconds of the passes over a row, and the link between the processes."""

    row_seconds: float
    link: Link


class StepTime(NamedTuple):
    """Seconds of the passes of a step and of the exchange that follows them, and of the latter
    alone."""

    seconds: float
    exchange: float


Candidates = Mapping[RankStrategy, Plan | ContractMistake]
"""Plan of a contract with each strategy, the simplest first, or why there is none."""


def choose_strategy(
    candidates: Candidates, shape: Shape, measure: Callable[[], RankSpeeds]
) -> Choice:
    """The choice among them. It is measured only where several fit.

    Raises:
        ContractMistake: none can be planned.
    """
    fitting = find_fitting(candidates)
    plans = {name: one for name, one in candidates.items() if isinstance(one, Plan)}
    if len(fitting) < 2:
        return _choose_by_memory(candidates, plans, fitting[0])
    speeds = measure()
    times = {name: time_step(plans[name], shape, speeds) for name in fitting}
    fastest = min(fitting, key=lambda name: times[name].seconds)
    listed = ", ".join(_describe(name, one) for name, one in times.items())
    reason = f"the fastest that fits into the memory: on {speeds.link.ranks} devices a step takes "
    reason += listed
    numbers: dict[str, Json] = {
        "seconds": {name: one._asdict() for name, one in times.items()},
        "row_seconds": speeds.row_seconds,
        "latency_seconds": speeds.link.latency_seconds,
        "bytes_per_second": speeds.link.bytes_per_second,
    }
    return Choice(STRATEGY, fastest, reason, {**_numbers(plans), **numbers})


def find_fitting(candidates: Candidates) -> list[RankStrategy]:
    """Those whose processes fit into the memory that they may use; or else the one that needs the
    least.

    Raises:
        ContractMistake: none can be planned.
    """
    plans = {name: one for name, one in candidates.items() if isinstance(one, Plan)}
    if not plans:
        raise [one for one in candidates.values() if isinstance(one, ContractMistake)][-1]
    fitting = [name for name, plan in plans.items() if _count_bytes(plan) <= _usable(plan)]
    return fitting or [min(plans, key=lambda name: _count_bytes(plans[name]))]


def time_step(plan: Plan, shape: Shape, speeds: RankSpeeds) -> StepTime:
    """Time of a step with the strategy of a plan, its update aside, which takes as long with any of
    them."""
    contract = plan.contract
    exchange = exchange_seconds(contract, contract.model, shape, speeds.link)
    rows = settled(contract.training.effective_batch_size) / contract.distributed.data_ranks
    return StepTime(rows * speeds.row_seconds + exchange, exchange)


def _choose_by_memory(
    candidates: Candidates, plans: Mapping[RankStrategy, Plan], chosen: RankStrategy
) -> Choice:
    usable = _usable(plans[chosen])
    needs = {
        name: show_bytes(_count_bytes(one)) if isinstance(one, Plan) else one.problems[0].found
        for name, one in candidates.items()
    }
    others = ", ".join(f"of {name} {needs[name]}" for name in candidates if name != chosen)
    reason = f"a process may use {show_bytes(usable)} of memory, and needs {needs[chosen]}"
    return Choice(STRATEGY, chosen, f"{reason}; one {others}", _numbers(plans))


def _count_bytes(plan: Plan) -> int:
    assert plan.memory != "unknown", "the plan of a network whose rows are encoded"
    return plan.memory.total


def _usable(plan: Plan) -> float:
    """Memory of a device less the margin."""
    assert plan.memory != "unknown", "the plan of a network whose rows are encoded"
    margin = plan.contract.training.memory.margin
    return plan.memory.device * (1 - margin) if plan.memory.device else math.inf


def _numbers(plans: Mapping[RankStrategy, Plan]) -> dict[str, Json]:
    return {"bytes": {name: _count_bytes(plan) for name, plan in plans.items()}}


def _describe(strategy: RankStrategy, time: StepTime) -> str:
    exchange = f" ({_show(time.exchange)} of it exchange)" if time.exchange else ""
    return f"{_show(time.seconds)} with {strategy}{exchange}"


def _show(seconds: float) -> str:
    return f"{1000 * seconds:.3g} ms" if seconds < 1 else show_seconds(seconds)
