"""What a run will take, as far as arithmetic knows it beforehand. No time is invented."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal, assert_never, final

from trainwright.contract.data import ColumnSplit, StratifiedSplit
from trainwright.contract.document import Contract
from trainwright.contract.model import Mlp, Network, TabularResNet
from trainwright.contract.section import settled
from trainwright.core.files import Json
from trainwright.data.reading import DataFacts
from trainwright.data.splits import Shares, rows_of_class
from trainwright.model.shape import (
    PERIODIC_FREQUENCIES,
    PERIODIC_WIDTH,
    TableShape,
    embedding_width,
)

_NUMBER_BYTES = 4
_CODE_BYTES = 8
_TARGET_BYTES = 8


@final
@dataclass(frozen=True, slots=True)
class Estimate:
    """What a run will take.

    `train_rows` are those that the split leaves for training: exact for random and stratified
    splits, about right where groups or moments stay together. `steps` are optimizer steps up to the
    last epoch, 0 for models that the loop does not train. `memory_bytes` is about that of all
    encoded rows. `parameters` are known once the columns are encoded.
    """

    train_rows: int
    steps_per_epoch: int
    steps: int
    memory_bytes: int
    parameters: Literal["unknown"] | int = "unknown"

    def with_parameters(self, section: Network, shape: TableShape) -> Estimate:
        """The estimate once the columns are encoded."""
        return replace(self, parameters=count_parameters(section, shape))

    def to_json(self) -> Json:
        """The fields by name."""
        return {
            "train_rows": self.train_rows,
            "steps_per_epoch": self.steps_per_epoch,
            "steps": self.steps,
            "memory_bytes": self.memory_bytes,
            "parameters": self.parameters,
        }


def train_rows_of(contract: Contract, facts: DataFacts) -> int:
    """Rows of the training file that the split leaves for training, at least 1.

    A split by column is only known once it is made: here every row counts.
    """
    rows = facts.part_rows["train"]
    split = contract.data.split
    shares = Shares.of(split, facts.given)
    match split:
        case ColumnSplit():
            return rows
        case StratifiedSplit() if facts.target.classes:
            taken = sum(sum(rows_of_class(n, shares)) for n in facts.target.classes.values())
        case _:
            taken = round(rows * shares.validation) + round(rows * shares.test)
    return max(1, rows - taken)


def steps_per_epoch(train_rows: int, effective_batch_size: int) -> int:
    """Optimizer steps of an epoch; the last one may be short."""
    return math.ceil(train_rows / effective_batch_size)


def estimate_run(contract: Contract, facts: DataFacts) -> Estimate:
    """The estimate for a contract in which every auto is decided."""
    rows = train_rows_of(contract, facts)
    a_row = _TARGET_BYTES
    for column in facts.columns:
        match column.kind:
            case "numeric" | "datetime":
                # A column with missing values has an indicator beside it.
                a_row += _NUMBER_BYTES * (2 if column.missing else 1)
            case "categorical":
                a_row += _CODE_BYTES
            case "text" | "ignored":
                pass
            case _:
                assert_never(column.kind)
    if not isinstance(contract.model, Mlp | TabularResNet):
        return Estimate(rows, 0, 0, facts.rows * a_row)
    training = contract.training
    in_epoch = steps_per_epoch(rows, settled(training.effective_batch_size))
    return Estimate(rows, in_epoch, in_epoch * settled(training.num_epochs), facts.rows * a_row)


def count_parameters(section: Network, shape: TableShape) -> int:
    """Trained numbers of a network on a table of this shape."""
    widths = [
        embedding_width(size) if section.embedding_dim == "auto" else section.embedding_dim
        for size in shape.cardinalities
    ]
    embeddings = sum(size * width for size, width in zip(shape.cardinalities, widths, strict=True))
    width = shape.numeric + sum(widths)
    if section.numeric_embedding == "periodic" and shape.numeric:
        width += shape.numeric * PERIODIC_WIDTH
        embeddings += shape.numeric * PERIODIC_FREQUENCIES
        embeddings += _linear(2 * PERIODIC_FREQUENCIES, PERIODIC_WIDTH)
    match section:
        case Mlp():
            layers = (width, *section.hidden, shape.outputs)
            return embeddings + sum(_linear(inner, outer) for inner, outer in pairwise(layers))
        case TabularResNet():
            inner = section.width
            hidden = round(inner * section.hidden_factor)
            norm = 2 * inner
            block = norm + _linear(inner, hidden) + _linear(hidden, inner)
            head = norm + _linear(inner, shape.outputs)
            return embeddings + _linear(width, inner) + section.blocks * block + head
        case _:
            assert_never(section)


def _linear(inputs: int, outputs: int) -> int:
    return (inputs + 1) * outputs
