"""`data` of `kind: pairs`, images with texts, and traits of pairs of which one side is found by
the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, Self

from pydantic import Field

from trainwright.contract.sections.data.data_traits import Feeding
from trainwright.contract.sections.data.images import Augment, Decoding
from trainwright.contract.sections.section import Count, Fraction, Section


class RetrievalData(Feeding):
    """Pairs in a table, or in one for each part."""

    tasks: ClassVar[tuple[str, ...]] = ("retrieval",)
    samplings: ClassVar[tuple[str, ...]] = ("uniform",)
    sampling_limits: ClassVar[str] = "the other pairs of a batch are what each is held against"
    is_slow_to_improve: ClassVar[bool] = True
    samples_test: ClassVar[bool] = False

    if TYPE_CHECKING:  # Fields of each kind, with their own words.
        path: str
        val_path: str
        test_path: str
        validation: float
        test: float

    @property
    def source(self) -> str:
        """`path`."""
        return self.path

    @property
    def part_shares(self) -> tuple[str, dict[str, float]]:
        """`validation` and `test`, of the parts that do not stand apart."""
        apart = {"validation": self.val_path, "test": self.test_path}
        shares = {"validation": self.validation, "test": self.test}
        return "data", {part: share for part, share in shares.items() if not apart[part]}

    @property
    def has_own_validation(self) -> bool:
        """Have the validation pairs a file of their own?"""
        return bool(self.val_path)


class CaptionTokens(Section):
    """How short texts become tokens, by what the texts of the training hold."""

    unit: Literal["words", "characters"] = "words"
    """`words` in lower case, and each mark by itself; or `characters` in lower case. What no text
    of the training holds is one token, `unknown`."""

    most: Annotated[int, Field(ge=2, le=524_288)] = 20_000
    """Tokens at most, the commonest first."""

    least_captions: Count = 1
    """In how many texts of the training a token occurs at least; the others are unknown."""

    max_length: Count = 64
    """Tokens of a text at most: longer ones are cut at the end, which is reported."""


class PictureTable(RetrievalData):
    """A table of images with a text each: what pairs and captions share."""

    path: str
    """A table with a row for each pair (`.csv`, `.parquet`, ...), relative to the contract's
    folder. Its other columns serve `slices`."""

    val_path: str = ""
    """The pairs that steer the training, where they stand apart."""

    test_path: str = ""
    """The pairs opened once, for the verdict, where they stand apart."""

    image: str = "image"
    """The column with the path of each image, or the bytes of its file."""

    caption: str = "caption"
    """The column with the text that belongs to the image. None may be empty."""

    group: str = ""
    """The column that names the group of a pair (variants of a picture, frames of a scene): pairs
    of one group fall on the same side of the split. Empty: those of one image do."""

    root: str = ""
    """The folder that image paths start from, and must not lead out of; relative to the contract's
    folder, or a URL. Empty: the table's own folder."""

    validation: Fraction = 0.15
    """Share of the pairs that steers the training, by whole groups where there are some. Unused
    where validation pairs stand apart."""

    test: Fraction = 0.15
    """Share of the pairs opened once, for the verdict. Unused where test pairs stand apart."""

    decoding: Decoding = Decoding()
    """Decoding of image files to arrays."""

    augment: Augment = Augment()
    """Random changes to the training images. A flip is one only where no caption says left or
    right; images are not blended."""

    def for_size(self, size: tuple[int, ...], /) -> Self:
        """The same for a model that reads images of this height and width; of any size if ()."""
        if self.decoding.size != "auto":
            return self
        decoding = self.decoding.model_copy(update={"size": size or "as_is"})
        return self.model_copy(update={"decoding": decoding})

    @property
    def cache_folder(self) -> str:
        """That of the decoded images."""
        return self.decoding.cache

    @property
    def is_augmented(self) -> bool:
        """Are training images changed at random?"""
        return self.augment.changes


class PairData(PictureTable):
    """Images with a caption each: what belongs together is learned, and each is found by the
    other."""

    kind: Literal["pairs"]

    test_path: str = ""
    """The pairs opened once, for the verdict, where they stand apart. The candidates among which a
    match is sought are those of this part: another number of them is another task."""

    tokens: CaptionTokens = CaptionTokens()
    """Tokens of the captions."""

    form: ClassVar[str] = "pairs"
    usual_metric: ClassVar[tuple[str, str]] = (
        "mean_recall",
        "images are found by texts, and texts by images",
    )
