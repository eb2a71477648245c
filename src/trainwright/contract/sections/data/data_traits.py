"""Fields and traits that every kind of data shares: sampling, worker processes, folds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, Self

from pydantic import Field, Tag

from trainwright.contract.sections.data.quality import Audit
from trainwright.contract.sections.data.sources import Reading
from trainwright.contract.sections.section import Auto, Count, Positive, Section, tagged_by

Part = Annotated[float, Field(gt=0, le=1)]

SAMPLINGS = ("uniform", "balanced", "weighted", "mixture", "curriculum", "blocks")
"""Every way to visit training rows."""

DELIVERY = ("num_workers", "pin_memory", "loading")
"""Fields that change nothing but the time in which batches come."""


class Uniform(Section):
    """Every row once an epoch."""

    kind: Literal["uniform"] = "uniform"


class Balanced(Section):
    """Every class equally often. An epoch has N samples, N / K of each of the K classes to the
    nearest; within a class its rows take turns, over the ends of epochs too, so that all of them
    are seen equally often over a run."""

    kind: Literal["balanced"]


class Weighted(Section):
    """A row with weight w is drawn N w / W times an epoch on average, W the sum of all weights, and
    in each epoch that number rounded down or up: systematic sampling (Madow 1949,
    doi:10.1214/aoms/1177729988) at places that differ from epoch to epoch."""

    kind: Literal["weighted"]

    column: str
    """The column of the weights, numbers from 0 on. It stays a feature unless `data.exclude` names
    it."""


class Mixture(Section):
    """Rows of several sources in given shares. An epoch has N samples; source s, which has n rows,
    gets the share p of them that `weights` gives it, else p proportional to n ** (1 / T) with the
    `temperature` T (Arivazhagan et al. 2019, arXiv:1907.05019, section 4.2). Within a source its
    rows take turns, over the ends of epochs too.

    A row of a text is a window, or a padded document, and is of one source. Each source is divided
    by position: its beginning trains, and its end tests. Validation and test parts are what they
    are, in no shares; `slices: [{column: source}]` tells the metric of each source."""

    kind: Literal["mixture"]

    column: str = ""
    """The column that names the source of a row of a table, or of a table of texts. Of a folder of
    texts it stays empty: each file and each folder directly in it is a source, named by it: `web`,
    or `books.txt`."""

    weights: dict[str, Positive] = Field(default_factory=dict)
    """The share of each source, of any sum, in place of `temperature`; every source of the training
    rows must have one."""

    temperature: Positive = 1.0
    """T: 1 keeps the sizes of the sources, larger values even them out (5 is usual for many
    languages)."""


class Curriculum(Section):
    """From easy to hard (Bengio et al. 2009, doi:10.1145/1553374.1553380). Sample s of the first S
    is drawn from the easiest g(s / S) N of the N rows; after them epochs are uniform. With c =
    `start` the pacing function g(t) is c + (1 - c) t (`linear`), (c**2 + (1 - c**2) t) ** 0.5
    (`root`: Platanios et al. 2019, arXiv:1903.09848, equation 7), or c ** (1 - t) (`exponential`:
    as in Hacohen and Weinshall 2019, arXiv:1904.03626, section 2, without its steps)."""

    kind: Literal["curriculum"]

    column: str
    """The column of the difficulty, numbers. It stays a feature unless `data.exclude` names it."""

    easiest: Literal["lowest", "highest"] = "lowest"
    """Which end of the column is easy."""

    pacing: Literal["linear", "root", "exponential"] = "root"
    """How fast harder rows come in: `root` gives each new row about as much time as those before
    it, `linear` more rows early, `exponential` the hard ones late."""

    start: Part = 0.1
    """Share of the rows, the easiest ones, that the first samples are drawn from."""

    ratio: Part = 0.3
    """Share of all samples of the run, over all epochs, after which every row is in: S over all."""

    samples: Annotated[int, Field(ge=0)] = 0
    """Samples after which every row is in, in place of `ratio`: S."""


class Blocks(Section):
    """Every row once an epoch, for rows in files larger than memory: blocks of rows that lie side
    by side come in a random order, and the rows of `mixed_blocks` of them at a time are mixed (Xu
    et al. 2022, arXiv:2206.05830, section 4). A disk then reads whole blocks, where a uniform order
    costs it a page for every row."""

    kind: Literal["blocks"]

    block_rows: Annotated[int, Field(ge=1)] = 1024
    """Rows of a block. Larger ones are read faster, and leave more neighbours near each other."""

    mixed_blocks: Annotated[int, Field(ge=1)] = 1024
    """Blocks whose rows are mixed: they should fit into memory, all of them together."""


Sampling = Annotated[
    Annotated[Uniform, Tag("uniform")]
    | Annotated[Balanced, Tag("balanced")]
    | Annotated[Weighted, Tag("weighted")]
    | Annotated[Mixture, Tag("mixture")]
    | Annotated[Curriculum, Tag("curriculum")]
    | Annotated[Blocks, Tag("blocks")],
    tagged_by("kind", default="uniform"),
]
"""Which training rows an epoch visits. An epoch has as many samples as there are training rows."""


class Folded(Section):
    """Hold-out split, or cross-validation in which every row is tested once."""

    folds: Literal["off"] | Annotated[int, Field(ge=2, le=100)] = "off"
    """`off` divides once. A number cuts the rows into so many folds by the same rule and trains a
    model for each, which is judged on the fold that it did not see; then one on all rows, which is
    the run's model. The verdict rests on the rows of all folds together."""


class Loading(Section):
    """How worker processes deliver batches, where `data.num_workers` is not 0. Nothing here, nor
    the number of workers, changes what is trained on: it may differ when a run goes on."""

    ahead: Count = 2
    """Blocks of about 8 MB that each worker makes before they are needed. Memory for all of them is
    held from the first step on."""

    hang_seconds: Positive = 60.0
    """Seconds after which a worker that does not answer is killed, and counts as dead."""

    restarts: Annotated[int, Field(ge=0)] = 3
    """Dead workers of a run that are started again; at one more the run stops. The rows that a dead
    worker had are made again, with the same bits."""


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
    def further_baselines(self) -> tuple[str, ...]:
        """Names of its baselines besides the dummy and the linear one."""
        return ()

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
