"""The root of the contract. Only the stages that see the whole may import this file."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from trainwright.contract.sections.data.data import Data
from trainwright.contract.sections.metric import Metric, QuestionSet, Slice
from trainwright.contract.sections.model import Model
from trainwright.contract.sections.run_settings import (
    Budget,
    Distributed,
    Resources,
    Resume,
    Serving,
    Tracking,
    Tune,
)
from trainwright.contract.sections.section import Auto, Section
from trainwright.contract.sections.training.training import Training

Task = Literal[
    "classification",
    "regression",
    "multilabel",
    "ranking",
    "retrieval",
    "generation",
    "forecasting",
]

Purpose = Literal["unstated", "research", "production", "adapter", "benchmark"]


class Contract(Section):
    """Requirements on a model, its data and budget, and how its run resumes."""

    name: str = "auto"
    """Runs are called `<name>-<number>`. `auto`: the name of the contract's folder if the file is
    called `contract.yaml`, else of the file."""

    task: Auto | Task = "auto"
    """What is predicted: `classification` (a class), `regression` (a number, or
    several), `multilabel` (any number of labels of a row), `ranking` (the order of the rows of a
    query), `generation` (the next token of a text), `forecasting` (the next values of series),
    `retrieval` (which image and text belong together). `auto`: ranking if `data.query` names a
    column, multilabel if `data.target` names several columns of 1 and 0 or `data.labels` has a
    separator, regression if the target is numeric with more than 20 values, generation for a text,
    forecasting for series, retrieval for pairs, else classification."""

    data: Data
    """What is learned from, and how it is divided: a table (without `kind`), `images`,
    `tokens`, `series` or `pairs`."""

    model: Model
    """Model."""

    training: Training = Training()
    """Training of a network."""

    metric: Metric = Metric()
    """What the model must achieve."""

    slices: tuple[Slice, ...] = ()
    """Parts of the test rows that must not be worse than their floor."""

    questions: tuple[QuestionSet, ...] = ()
    """Files of questions that a decoder answers when it is judged, a clause each."""

    budget: Budget = Budget()
    """Resources that the run may use."""

    serving: Serving = Serving()
    """Limits of the model in use."""

    purpose: Purpose = "unstated"
    """What the model is for, which decides what its run must hold, a clause each: `production`
    (input signature, training profile, calibration or `none` as written, limits of `serving`, a
    model card), `research` (predictions of every test row, and everything that was tried),
    `adapter` (an adapter alone, with the SHA-256 of its base), `benchmark` (every row of a test
    part that the data brings, and other seeds). `unstated`: no such clause."""

    resume: Resume = Resume()
    """How an interrupted run resumes."""

    seed: Annotated[int, Field(ge=0, lt=2**32)] = 0
    """Where the randomness of a training starts: the order of the rows, the first weights, dropout,
    the bootstrap."""

    split_seed: Annotated[int, Field(ge=0, lt=2**32)] = 0
    """Where the randomness of the data starts: the split and its folds, and the folds in which
    target means are fitted. Apart from `seed`, so that runs with other seeds are judged on the same
    rows; a score that another `split_seed` changes depends on which rows were drawn."""

    compute: Resources = Resources()
    """What a training uses of the machine."""

    distributed: Distributed = Distributed()
    """Over how many devices."""

    tracking: Tracking = Tracking()
    """Where a run is recorded besides its own folder."""

    tune: Annotated[Literal["off"] | Tune, Field(exclude=True)] = "off"
    """What `trainwright tune` searches; a single training is that of the contract without it."""

    @property
    def named_metrics(self) -> tuple[tuple[str, str], ...]:
        """Path and name of each metric that it names, `val_` removed."""
        stopping = self.training.early_stopping
        watched = [] if stopping == "off" else [stopping.metric.removeprefix("val_")]
        return (
            ("metric.name", self.metric.name),
            *(("training.early_stopping.metric", name) for name in watched),
            *((f"slices.{at}.metric", part.metric) for at, part in enumerate(self.slices)),
        )
