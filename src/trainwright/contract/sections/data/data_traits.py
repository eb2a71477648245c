"""Fields and traits that every kind of data shares."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, Self

from pydantic import Field

from trainwright.contract.sections.data.accepted_findings import Audit
from trainwright.contract.sections.data.folds import Folded
from trainwright.contract.sections.data.loading import Loading
from trainwright.contract.sections.data.sampling import Sampling, Uniform
from trainwright.contract.sections.data.sources import Reading
from trainwright.contract.sections.section import Auto, Section

SAMPLINGS = ("uniform", "balanced", "weighted", "mixture", "curriculum", "blocks")
"""Every way to visit training rows."""

DELIVERY = ("num_workers", "pin_memory", "loading")
"""Fields that change nothing but the time in which batches come."""


class Feeding(Section):
    """How rows reach the model.

    Traits are what rules and planner must know of a kind of data; the defaults are those of plain
    rows, and a section overrides them.
    """

    form: ClassVar[str] = "table"
    """The inputs that models get: `table` (columns of numbers and codes), `images`, `tokens`,
    `pairs` or `text_pairs`."""

    tasks: ClassVar[tuple[str, ...]] = ("classification", "regression")
    """What can be learned from it."""

    samplings: ClassVar[tuple[str, ...]] = SAMPLINGS
    """The kinds of `sampling` that it supports."""

    sampling_limits: ClassVar[str] = ""
    """Why it supports no others."""

    reads_frames: ClassVar[bool] = False
    """May rows come from a frame in memory?"""

    can_be_taught: ClassVar[bool] = False
    """Can a trained model score its training rows for another one?"""

    has_soft_tokens: ClassVar[bool] = False
    """Can a decoder learn what another one predicts of its tokens?"""

    samples_test: ClassVar[bool] = True
    """May a budget judge fewer test rows?"""

    has_row_latency: ClassVar[bool] = True
    """Does the prediction of a row take a time of its own?"""

    is_augmentable: ClassVar[bool] = False
    """Has it an `augment` section, whose effect can be shown?"""

    is_comparable: ClassVar[bool] = False
    """Has it typed columns, by which two versions are compared?"""

    usual_metric: ClassVar[tuple[str, str]] = ("", "")
    """The metric that `auto` means, and why; empty: it depends on the targets."""

    is_slow_to_improve: ClassVar[bool] = False
    """Does `auto` wait for an improvement in proportion to the length of the training?"""

    is_one_way: ClassVar[bool] = False
    """Of a retrieval: is only one side asked for, and the other one found?"""

    if TYPE_CHECKING:  # A field of each kind, with its own words.
        kind: str

    num_workers: Auto | Annotated[int, Field(ge=0)] = "auto"
    """Processes that make batches ahead of their use; 0 makes them in the training process. `auto`:
    0 where rows only have to be gathered, and for runs that are too short to gain; else measured
    with the model at the start of the run. The number changes nothing but the time, so it may
    differ when a run goes on."""

    pin_memory: Auto | bool = "auto"
    """Whether the batches of worker processes reach a GPU through page-locked memory, which copies
    faster and beside the training. `auto`: only where there is a GPU."""

    loading: Loading = Loading()
    """Delivery of batches by worker processes."""

    shuffle: bool = True
    """Whether an epoch visits the training rows in a new random order. The order of epoch e is a
    function of the seed and e."""

    sampling: Sampling = Uniform()
    """Which training rows an epoch visits, and how often: `uniform`, `balanced`, `weighted`,
    `mixture` or `curriculum`."""

    audit: Audit = Audit()
    """Findings of the leakage audit that are accepted, with the reason."""

    @classmethod
    def of(cls, data: Feeding) -> Self:
        """The same section where its kind is settled; another kind is a programmer's mistake."""
        assert isinstance(data, cls), f"data of kind {cls.__name__}"
        return data

    def for_size(self, _size: tuple[int, ...], /) -> Self:
        """The same for a model that reads images of this height and width; of any size if ()."""
        return self

    @property
    def possible_tasks(self) -> tuple[str, ...]:
        """Tasks that these settings allow."""
        return self.tasks

    @property
    def has_several_targets(self) -> bool:
        """Is more than one value of a row predicted?"""
        return False

    @property
    def has_label_lists(self) -> bool:
        """Does one cell hold the labels of a row?"""
        return False

    @property
    def source(self) -> str:
        """The path of its rows; empty where they are named otherwise."""
        return ""

    @property
    def class_order(self) -> tuple[str, ...]:
        """The classes from the lowest to the highest; empty where they have no order."""
        return ()

    @property
    def folding(self) -> Folded:
        """Whether the rows are cut into folds."""
        return Folded()

    @property
    def part_shares(self) -> tuple[str, dict[str, float]]:
        """The section where the shares of the parts stand, and those that are divided off."""
        return "data", {}

    @property
    def slice_columns(self) -> tuple[str, ...]:
        """The columns that rows can be sliced by; empty where the files say it."""
        return ()

    @property
    def file_reading(self) -> Reading:
        """How its files are read."""
        return Reading()

    @property
    def cache_folder(self) -> str:
        """Where what was read and found is kept."""
        return self.file_reading.cache

    @property
    def can_refit(self) -> bool:
        """Can its validation rows join the training rows?"""
        return False

    @property
    def has_own_validation(self) -> bool:
        """Have the validation rows a file of their own?"""
        return False

    @property
    def weight_column(self) -> str:
        """The column of the weights of the training rows; empty without one."""
        return ""

    @property
    def time_column(self) -> str:
        """The column by whose time the rows are divided; empty without one."""
        return ""

    @property
    def judged_columns(self) -> tuple[tuple[str, str], ...]:
        """Columns of the judged rows that stand beside their predictions, and what each is called
        there."""
        return ()

    @property
    def follows_time(self) -> bool:
        """Are later rows judged by models of earlier ones?"""
        return False

    @property
    def is_in_files(self) -> bool:
        """Do encoded rows stay in files, where they may be larger than memory?"""
        return False

    @property
    def is_augmented(self) -> bool:
        """Are training rows changed at random?"""
        return False

    @property
    def is_blended(self) -> bool:
        """Are training rows blended, so that a row has two labels?"""
        return False

    @property
    def is_packed(self) -> bool:
        """Are documents packed into windows?"""
        return False

    @property
    def is_padded(self) -> bool:
        """Is each document a padded row of its own?"""
        return False

    @property
    def is_paired(self) -> bool:
        """Is each row a pair of answers, of which one is preferred?"""
        return False

    @property
    def windows_a_row(self) -> int:
        """Inputs of a model that a row consists of."""
        return 2 if self.is_paired else 1

    @property
    def batch_tokens(self) -> Literal["off"] | int:
        """Most tokens of a micro-batch, padding included."""
        return "off"

    @property
    def has_tokens(self) -> bool:
        """Are targets counted in tokens rather than in rows?"""
        return False
