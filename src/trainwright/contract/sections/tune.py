"""`tune`: over which values of the contract `trainwright tune` searches, how, and for how long."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field

from trainwright.contract.sections.section import Auto, Count, Section

Value = bool | int | float | str


class Searched(Section):
    """Numbers of an interval, or a list of values that is searched only with others."""

    low: Literal["none"] | int | float = "none"
    """Least number, itself among those tried."""

    high: Literal["none"] | int | float = "none"
    """Greatest number. If both are written as whole numbers, only whole numbers are tried."""

    scale: Literal["linear", "log"] = "linear"
    """`log`: each factor is as likely as another, for numbers that differ by powers of ten."""

    values: tuple[Value, ...] = ()
    """A list, in place of an interval."""

    only_with: Mapping[str, Value | tuple[Value, ...]] = {}
    """Searched only where other searched paths have one of these values, such as
    `{model.kind: boosting}`."""

    @property
    def bounds(self) -> tuple[int, int] | tuple[float, float]:
        """`low` and `high` of an interval, as whole numbers if both were written so."""
        low, high = self.low, self.high
        assert low != "none", "a rule of the contract asks for both"
        assert high != "none", "a rule of the contract asks for both"
        if isinstance(low, int) and isinstance(high, int):
            return low, high
        return float(low), float(high)


class Ray(Section):
    """A Ray cluster that runs the trials."""

    ray: str
    """Address of its head, such as `auto` or `ray://host:10001`."""

    trials_at_a_time: Count
    """Trials at a time, as `parallel` is on one machine. It is written rather than taken from the
    cluster, because the values of a trial depend on it: so a search repeats on another cluster.
    Trials that the cluster has no room for wait in its queue."""

    cores: Count = 1
    """Cores of a trial."""

    gpus: Annotated[float, Field(ge=0)] = 0.0
    """GPUs of a trial; a part of one is shared."""


class Tune(Section):
    """A search over values of the contract: each trial is a training with some of them replaced,
    scored on rows that its training did not use; the test rows stay closed until the winner is
    judged, once. The contract's `budget` is that of the whole search."""

    over: Annotated[Mapping[str, tuple[Value, ...] | Searched], Field(min_length=1)]
    """What is searched: a path of the contract, such as `training.optimizer.learning_rate`, with
    a list of values or an interval `{low: 1e-5, high: 1e-2, scale: log}`."""

    method: Auto | Literal["grid", "random", "tpe", "gp", "cmaes"] = "auto"
    """`grid`: every combination of lists, in order. `random`: independent draws. `tpe`: tree of
    Parzen estimators (Bergstra et al. 2011). `gp`: a Gaussian process, for few numbers and slow
    trainings. `cmaes`: covariance matrix adaptation, for numbers alone and hundreds of trials.
    `auto`: `grid` if `trials` are enough for every combination, else `tpe`."""

    trials: Count = 20
    """Trainings of the search. The first is the contract as it is written: what the others are
    compared with."""

    parallel: Auto | Count | Ray = "auto"
    """Trials at a time on this machine, which share its cores, or a Ray cluster. `auto`: one. The
    values of a trial depend on the results of all but the last `parallel` before it, in their
    order: a search with the same number repeats to the bit, however long its trials take."""

    seeds: Count = 1
    """Trainings of each trial, with seeds that follow the contract's; its score is their mean."""

    folds: Literal["off"] | Annotated[int, Field(ge=2, le=20)] = "off"
    """`off`: a trial is scored on the validation rows. A number: on all training and validation
    rows of a table, each by a model that was trained without its fold."""

    stop: Literal["off", "median", "hyperband"] = "off"
    """Trials ended before their training is: by their validations, `median` those below the
    median of the trials before at the same step, `hyperband` all but a third at each of several
    lengths (Li et al. 2018, JMLR 18:185)."""

    choice: Literal["simplest", "best"] = "simplest"
    """Which trial is kept: the `best`, or, of those whose paired interval reaches it, the one of
    the smallest model; models of sizes within a factor of two count as alike."""

    start: str = ""
    """A study of the same metric whose trials are known before the first; its folder."""

    storage: Auto | str = "auto"
    """Where trials are recorded: `auto` in a journal file of the study's folder; the URL of a
    PostgreSQL database, without a password, for several machines, each of which is given
    `trainwright tune CONTRACT --join STUDY`."""
