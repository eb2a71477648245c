"""`data.sampling`: which training rows an epoch visits, and how often."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, Tag

from trainwright.contract.sections.section import Positive, Section, tagged_by

Part = Annotated[float, Field(gt=0, le=1)]


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
