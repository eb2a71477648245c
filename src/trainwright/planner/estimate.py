"""Cost estimate of a run by arithmetic. Times are measured, never estimated here."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import chain
from typing import Literal, assert_never, final

from trainwright.contract.document import Contract
from trainwright.contract.sections.data import (
    ColumnSplit,
    FileSplit,
    Split,
    StratifiedSplit,
    TableData,
)
from trainwright.contract.sections.images import ImageData
from trainwright.contract.sections.model import (
    Boosting,
    Gpt,
    Linear,
    Network,
    Pretrained,
)
from trainwright.contract.sections.section import settled
from trainwright.contract.sections.tokens import TokenData
from trainwright.core.files import Json
from trainwright.data.images.prepare_images import split_of
from trainwright.data.read_table import DataFacts
from trainwright.data.sampling.step_ramps import Stages, step_rows, steps_at_epoch_ends, steps_up_to
from trainwright.data.split.fractions import Shares
from trainwright.data.split.splits import rows_of_class
from trainwright.data.text.chunks import cut_documents
from trainwright.data.text.packing import count_windows
from trainwright.model.counting import count_parameters
from trainwright.model.input_shape import (
    Shape,
)

_NUMBER_BYTES = 4
_TERM_BYTES, _TERMS_OF_A_TEXT = 20, 200
_CODE_BYTES = 8
_TARGET_BYTES = 8


@final
@dataclass(frozen=True, slots=True)
class Estimate:
    """Cost of a run.

    `train_rows` are the training rows after the split: exact for random and stratified splits,
    approximate where groups or timestamps stay together. `steps` are optimizer steps up to the last
    epoch, 0 for models not trained by the loop; `steps_per_epoch` those of an epoch, after any
    ramp. `memory_bytes` is approximately that of all encoded rows, 0 for rows in files.
    `parameters` are known once the columns are encoded.
    """

    train_rows: int
    steps_per_epoch: int
    steps: int
    memory_bytes: int
    parameters: Literal["unknown"] | int = "unknown"

    def with_parameters(self, section: Network, shape: Shape) -> Estimate:
        """Estimate once the columns are encoded."""
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
    """Training rows after the split, at least 1; for a text the windows or documents of an epoch.

    A split by column or file is only known once it is made: here every row counts. With folds the
    run's own model trains on all rows but the validation rows.
    """
    rows = facts.part_rows["train"]
    data = contract.data
    match data:
        case ImageData():
            return _table_rows(rows, split_of(data), facts)
        case TokenData():
            assert isinstance(contract.model, Gpt), "the rules refuse other models"
            return max(1, text_rows(data, contract.model.context, facts))
        case TableData():
            return _table_rows(rows, data.split, facts)
        case _:
            assert_never(data)


def text_rows(data: TokenData, context: int, facts: DataFacts) -> int:
    """Windows or documents of an epoch, if no source is shorter than the context."""
    match data.windows:
        case "across":
            return sum((sum(tokens) - 1) // context - 1 for tokens in facts.documents.values())
        case "packed":
            return count_windows(tuple(facts.documents.values()), context, data.long_documents)
        case "padded":
            every = list(chain.from_iterable(facts.documents.values()))
            return len(cut_documents(every, context, data.long_documents).lengths)
        case _:
            assert_never(data.windows)


def _table_rows(rows: int, split: Split, facts: DataFacts) -> int:
    shares = Shares.of(split, facts.given)
    match split:
        case ColumnSplit() | FileSplit():
            return rows
        case StratifiedSplit() if facts.target.classes:
            taken = sum(sum(rows_of_class(n, shares)) for n in facts.target.classes.values())
        case _:
            taken = round(rows * shares.validation) + round(rows * shares.test)
    return max(1, rows - taken)


def steps_per_epoch(train_rows: int, effective_batch_size: int) -> int:
    """Optimizer steps of an epoch; the last one may be short."""
    return math.ceil(train_rows / effective_batch_size)


def epoch_ends(contract: Contract, train_rows: int) -> tuple[int, ...]:
    """Optimizer steps at the end of each epoch, ramps included."""
    epochs = settled(contract.training.num_epochs)
    return steps_at_epoch_ends(_step_rows(contract, train_rows), train_rows, epochs)


def most_steps(contract: Contract, train_rows: int) -> int:
    """Optimizer steps within the epochs and the limits of a run, ramps included; for padded
    documents, as if each filled its window."""
    stop = contract.training.stop
    samples = settled(contract.training.num_epochs) * train_rows
    if stop.max_samples != "off":
        samples = min(samples, stop.max_samples)
    if stop.max_tokens != "off":
        assert isinstance(contract.model, Gpt), "the rules refuse it for other data"
        samples = min(samples, math.ceil(stop.max_tokens / contract.model.context))
    steps = steps_up_to(_step_rows(contract, train_rows), train_rows, samples)
    return steps if stop.max_steps == "off" else min(stop.max_steps, steps)


def scheduled_steps(contract: Contract, train_rows: int) -> int:
    """Upper bound on the steps spanned by the learning-rate schedule: the number of padded
    documents with so many tokens is not known here."""
    training, data = contract.training, contract.data
    spans = training.stop.schedule_spans
    if isinstance(spans, int):
        return spans
    if spans == "epochs":
        return epoch_ends(contract, train_rows)[-1]
    if isinstance(data, TokenData) and data.windows == "padded":
        stop = training.stop.model_copy(update={"max_tokens": "off"})
        training = training.model_copy(update={"stop": stop})
    return most_steps(contract.model_copy(update={"training": training}), train_rows)


def _step_rows(contract: Contract, train_rows: int) -> Stages:
    training = contract.training
    samples = train_rows * settled(training.num_epochs)
    return step_rows(training.ramps.batch, settled(training.effective_batch_size), samples)


def estimate_run(contract: Contract, facts: DataFacts) -> Estimate:
    """Estimate for a resolved contract."""
    rows = train_rows_of(contract, facts)
    a_row = _TARGET_BYTES
    for column in facts.columns:
        match column.kind:
            case "numeric" | "datetime":
                # A column with missing values has an additional indicator.
                a_row += _NUMBER_BYTES * (2 if column.missing else 1)
            case "categorical":
                a_row += _CODE_BYTES
            case "text":
                a_row += _text_bytes(contract)
            case "ignored":
                pass
            case _:
                assert_never(column.kind)
    match contract.data:
        case TableData(reading=reading):
            held = 0 if reading.rows_in == "files" else facts.rows * a_row
        case ImageData() | TokenData():
            # As in their files; packed images take about half as much there.
            held = sum(file.size_bytes for file in facts.files) * 2
        case _:
            assert_never(contract.data)
    if isinstance(contract.model, Boosting | Linear | Pretrained):
        return Estimate(rows, 0, 0, held)
    training = contract.training
    in_epoch = steps_per_epoch(rows, settled(training.effective_batch_size))
    return Estimate(rows, in_epoch, epoch_ends(contract, rows)[-1], held)


def _text_bytes(contract: Contract) -> int:
    """What a text takes: its directions, or those of its terms that occur in it."""
    data = contract.data
    if not isinstance(data, TableData):
        return 0
    text = data.features.text
    if text.reduce == "svd":
        return _NUMBER_BYTES * text.components
    return _TERM_BYTES * min(_TERMS_OF_A_TEXT, settled(text.terms))
