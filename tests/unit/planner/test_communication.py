"""How long ranks exchange tensors and what each of them holds, by hand."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest

from trainwright.contract.document import Contract
from trainwright.contract.reading.read_contract import read_contract
from trainwright.distributed.link import BUCKET_BYTES, Link
from trainwright.model.families import network_family
from trainwright.model.input_shape import TokenShape
from trainwright.planner.communication import exchange_seconds
from trainwright.planner.micro_batch_memory import MemoryEstimate, estimate_memory, state_bytes

LETTERS = TokenShape(65)
LINK = Link(ranks=4, latency_seconds=1e-5, bytes_per_second=1e9)


class Counts(NamedTuple):
    parameters: int
    block: int
    rest: int


def contract_of(folder: Path, *settings: str) -> Contract:
    path = folder / "contract.yaml"
    path.write_text("data: {kind: tokens, path: t.txt}\nmodel: {kind: gpt, layers: 5, width: 64}\n")
    given = ["training.batch_size=2", "training.gradient_accumulation_steps=3", *settings]
    return read_contract(path, ["training.optimizer={name: adamw}", *given]).contract


def count(contract: Contract) -> Counts:
    family = network_family(contract.model)
    parts = family.count_parts(contract.model, LETTERS)
    assert len(parts.blocks) == 5
    parameters = family.count_parameters(contract.model, LETTERS)
    assert sum(parts.blocks) + parts.rest == parameters
    return Counts(parameters, parts.blocks[0], parts.rest)


def memory_of(contract: Contract) -> MemoryEstimate:
    parameters = count(contract).parameters
    return estimate_memory(contract, contract.model, LETTERS, parameters, (0, 0))


def test_an_all_reduce_of_a_ring() -> None:
    # 2 x 3 messages of 10 us, and 2 x 3/4 of 1 GB.
    assert LINK.all_reduce_seconds(1e9) == pytest.approx(6e-5 + 1.5)
    assert LINK.all_reduce_seconds(1e9, calls=10) == pytest.approx(6e-4 + 1.5)
    assert LINK.all_gather_seconds(1e9) == pytest.approx(3e-5 + 0.75)


def test_a_link_explains_the_times_that_it_was_fitted_to() -> None:
    times = [(size, LINK.all_reduce_seconds(size)) for size in (2**16, BUCKET_BYTES)]
    fitted = Link.fit(4, *times)
    assert fitted.latency_seconds == pytest.approx(LINK.latency_seconds)
    assert fitted.bytes_per_second == pytest.approx(LINK.bytes_per_second)


def test_a_link_that_was_measured_while_others_ran_has_no_negative_latency() -> None:
    fitted = Link.fit(2, (2**16, 1e-3), (BUCKET_BYTES, 0.9e-3))
    assert fitted.latency_seconds >= 0
    assert fitted.bytes_per_second > 0


@pytest.mark.torch
def test_copies_sum_their_gradients_and_shards_gather_each_block_twice(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    copies, shards = (
        contract_of(tmp_path, f"distributed={{strategy: {name}, num_gpus: 4}}")
        for name in ("ddp", "fsdp")
    )
    counts = count(copies)
    seconds = [exchange_seconds(one, one.model, LETTERS, LINK) for one in (copies, shards)]
    bandwidth, packets = 4 * counts.parameters / 1e9, 3e-5
    assert seconds[0] == pytest.approx(2 * 3 / 4 * bandwidth + 6e-5 + packets)
    # In each of three micro-batches five blocks and the rest are gathered twice and scattered once.
    assert seconds[1] == pytest.approx(3 * 3 * (3 / 4 * bandwidth + 6 * 3e-5) + packets)
    kept = contract_of(
        tmp_path, "distributed={strategy: fsdp, num_gpus: 4, reshard_after_forward: false}"
    )
    two_thirds = exchange_seconds(kept, kept.model, LETTERS, LINK)
    assert two_thirds - packets == pytest.approx(2 / 3 * (seconds[1] - packets))


@pytest.mark.torch
def test_replicas_gather_within_and_sum_between(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    shards = contract_of(tmp_path, "distributed={strategy: fsdp, num_gpus: 4, replicas: 2}")
    bandwidth = 4 * count(shards).parameters / 1e9
    within = 3 * (1 / 2 * bandwidth + 6 * 1e-5)
    between = 2 * (1 / 2 * bandwidth / 2 + 6 * 1e-5)
    assert exchange_seconds(shards, shards.model, LETTERS, LINK) == pytest.approx(
        3 * (within + between) + 3e-5
    )
    assert memory_of(shards).weights == 2 * count(shards).parameters


@pytest.mark.torch
def test_state_is_whole_in_copies_and_divided_in_shards(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    alone, copies, shards = (
        contract_of(tmp_path, f"distributed={{strategy: {name}, num_gpus: {ranks}}}")
        for name, ranks in (("single", 1), ("ddp", 2), ("fsdp", 4))
    )
    counts = count(alone)
    whole, copy, shard = map(memory_of, (alone, copies, shards))
    assert state_bytes(alone.training.optimizer) == 8
    state = [one.weights + one.gradients + one.optimizer for one in (whole, copy, shard)]
    assert state[:2] == [16 * counts.parameters] * 2
    assert state[2] == pytest.approx(16 * counts.parameters / 4, abs=4)
    assert whole.activations == copy.activations == shard.activations
    assert whole.exchange == 0
    # The gradient is smaller than a bucket.
    assert copy.exchange == 4 * counts.parameters
    assert counts.block > counts.rest
    assert shard.exchange == 4 * (counts.rest + 4 * counts.block)


@pytest.mark.torch
def test_a_device_must_hold_the_model_before_it_is_divided(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    shards = contract_of(tmp_path, "distributed={strategy: fsdp, num_gpus: 1000}")
    memory = memory_of(shards)
    assert memory.total - memory.activations >= 4 * count(shards).parameters
