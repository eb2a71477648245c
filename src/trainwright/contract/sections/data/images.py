"""`data` of `kind: images`: images with a label each, or with any number of labels."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field

from trainwright.contract.sections.data.data_traits import Feeding, Folded
from trainwright.contract.sections.data.table_data import LabelCells
from trainwright.contract.sections.section import Auto, Count, Fraction, NonNegative, Section
from trainwright.core.limits import MOST_IMAGE_PIXELS, USUAL_IMAGE_PIXELS

Pixels = Annotated[int, Field(ge=0)]


class ColorJitter(Section):
    """Random changes of colour, one after the other in this order, each image by its own numbers.
    Brightness b, contrast c and saturation s draw a factor from 1 - b to 1 + b and so on, which
    blends the image with black, with its mean grey, and with the grey of each pixel; hue h turns
    the colours in YIQ by -h to h of a circle. The idea is that of Krizhevsky et al. 2012 ("ImageNet
    classification", section 4.1), the form that of Howard 2013 (arXiv:1312.5402)."""

    brightness: Fraction = 0.0
    """Half the width of the range of factors; 0 changes nothing, 0.4 is common."""

    contrast: Fraction = 0.0
    """As `brightness`."""

    saturation: Fraction = 0.0
    """As `brightness`; nothing for grey images."""

    hue: Annotated[float, Field(ge=0, le=0.5)] = 0.0
    """Shares of a circle; 0.1 is common, more changes what they show. No effect on grey images."""

    @property
    def changes(self) -> bool:
        """Is any image changed?"""
        return self != ColorJitter()


class RandAugment(Section):
    """Operations drawn for each image from 14 (Cubuk et al. 2019, arXiv:1909.13719): none, stretch
    or equalise the contrast, rotate, solarise, posterise, change saturation, contrast, brightness
    or sharpness, shear and move along either axis."""

    operations: Pixels = 0
    """Operations applied to an image in sequence (N in the paper); 0 applies none."""

    magnitude: Annotated[float, Field(ge=0, le=10)] = 5.0
    """Their strength (M in the paper), 10 the largest: 30 degrees, a shear of 0.3, a move by 0.45
    of the side, factors 0.1 and 1.9, 4 bits."""

    @property
    def changes(self) -> bool:
        """Is any image changed?"""
        return self.operations > 0


class Erasing(Section):
    """A rectangle of random bytes over a part of the image (Zhong et al. 2017, arXiv:1708.04896,
    algorithm 1): its area a share from `smallest` to `largest`, its shape from 0.3 to 3.3."""

    probability: Annotated[float, Field(ge=0, le=1)] = 0.0
    """Share of the images that it happens to (p in the paper); 0 to none."""

    smallest: Annotated[float, Field(gt=0, lt=1)] = 0.02
    """Least share of the image (s_l)."""

    largest: Annotated[float, Field(gt=0, lt=1)] = 0.33
    """Largest share of the image (s_h)."""

    @property
    def changes(self) -> bool:
        """Is any image changed?"""
        return self.probability > 0


class Augment(Section):
    """Random changes to the training images. What happens to image i in epoch e is a function of
    the seed, e and i alone. Validation and test images are never changed."""

    flip: bool = False
    """Mirror every second image, left to right."""

    crop: Pixels = 0
    """Move the image by up to so many pixels in each direction; what comes in is black."""

    randaugment: RandAugment = RandAugment()
    """Operations drawn for each image, after flip and crop."""

    colors: ColorJitter = ColorJitter()
    """Random changes of colour, after those."""

    cutout: Pixels = 0
    """Side of a square that is blacked out at a random place, in pixels; 0 blacks out nothing
    (DeVries and Taylor 2017, arXiv:1708.04552)."""

    erase: Erasing = Erasing()
    """A rectangle of random bytes, after all other changes of a single image."""

    mixup: NonNegative = 0.0
    """Blend each image and its label with those of another training image, in shares of
    Beta(mixup, mixup); 0 blends nothing (Zhang et al. 2018, arXiv:1710.09412)."""

    cutmix: NonNegative = 0.0
    """Paste a rectangle of another training image, its area a share of Beta(cutmix, cutmix), and
    weigh the labels by area; 0 pastes nothing (Yun et al. 2019, arXiv:1905.04899). Beside `mixup`,
    each image gets the one or the other with equal chances."""

    @property
    def changes(self) -> bool:
        """Is any image changed?"""
        return any(
            one.changes if isinstance(one, RandAugment | ColorJitter | Erasing) else bool(one)
            for one in (getattr(self, name) for name in type(self).model_fields)
        )


class Decoding(Section):
    """How the files of images become arrays of one size. It is done once: the arrays are kept in a
    cache, as bytes that all processes map into memory.

    The content of a file says its format, not its name. EXIF orientation is applied. A palette
    becomes its colours, CMYK becomes RGB, transparent pixels are laid over white (drawings on
    transparent ground are mostly black), 16 bits become 8 (0 to 255 over the range of the training
    files), and grey is the luma of ITU-R BT.601 (0.299 R + 0.587 G + 0.114 B). Floating-point
    images are refused: their white level is undefined.
    """

    size: Auto | Literal["as_is"] | tuple[Count, Count] = "auto"
    """Height and width in pixels that every image is brought to. `as_is`: they are of one size
    already, and another one is refused. `auto`: what the base of the model reads, else `as_is`."""

    channels: Literal["rgb", "grey"] = "rgb"
    """Three channels or one. Grey images become three equal channels under `rgb`."""

    fit: Literal["stretch", "crop", "pad"] = "stretch"
    """What happens to an image of another shape than `size`: `stretch` gives up its proportions,
    `crop` its border, `pad` adds a black one."""

    filter: Literal["box", "bilinear", "bicubic", "lanczos", "nearest"] = "bilinear"
    """How pixels are made of others when the size changes. All but `nearest` widen with the factor
    when an image is made smaller, so that nothing aliases."""

    most_pixels: Annotated[int, Field(ge=1, le=MOST_IMAGE_PIXELS)] = USUAL_IMAGE_PIXELS
    """An image whose header claims more pixels counts as corrupt and is not unpacked: a file of a
    few kilobytes may claim gigabytes. `size` may not have more either."""

    corrupt: Literal["fail", "drop"] = "fail"
    """What happens to images that cannot be read (cut off, empty, no image, animated, too large):
    `fail` stops and names them, `drop` leaves them out and counts them. Paths that lead out of
    their folder, links and devices always stop."""

    cache: str = "user"
    """The folder of the arrays, and of the rows of a table of images: a folder, `user`
    ($TRAINWRIGHT_CACHE, else $XDG_CACHE_HOME/trainwright, else ~/.cache/trainwright), or `off`,
    which decodes them anew each time."""


class ImageFields(Section):
    """Where image, label and group of a row stand: the columns of a table, the extensions of the
    members of a tar shard (`jpg`, `cls`) or the keys of their `.json`. A folder of images has none
    of them."""

    image: str = "image"
    """The image: its path in a table, or the bytes of its file. In a tar shard the extension of its
    member (`jpg`, `left.png`), needed only where samples have several images."""

    label: str = "label"
    """The class. In a tar shard the member `.cls` where there is one, else this key of the
    `.json`."""

    group: str = ""
    """Images of one group (a patient, a camera, a street) fall on the same side of the split; empty
    where each image stands for itself."""

    root: str = ""
    """The folder that image paths of a table start from, and must not lead out of; relative to the
    contract's folder, or a URL. Empty: the table's own folder, also at a URL."""


class ImageData(Feeding):
    """Images of one size with a label each, or with any number of labels."""

    kind: Literal["images"]

    path: str
    """The images, relative to the contract's folder: a folder with a folder for each class, which
    may stand in folders `train`, `val` and `test`; a table with a column of image paths or bytes;
    WebDataset tar shards, also as `.gz`, one, a folder of them or a pattern such as
    `shards/*.tar`; or a folder with the four IDX files of the MNIST family. All but those may also
    be at a URL (`s3://`, `gs://`, `az://`, `https://`, `hf://`): what is fetched is kept in the
    cache."""

    val_path: str = ""
    """The images that steer the training, where they stand apart."""

    test_path: str = ""
    """The images opened once, for the verdict, where they stand apart."""

    fields: ImageFields = ImageFields()
    """Location of image, label and group."""

    labels: LabelCells = LabelCells()
    """How `fields.label` holds the labels of an image, for `task: multilabel`: in a table or tar
    shards."""

    classes: tuple[str, ...] = ()
    """Names of the labels 0, 1, 2 and so on, or the labels themselves in the order wanted. By
    default the labels themselves, in alphabetical or numerical order."""

    split: Folded = Folded()
    """Whether the images are divided once or cut into folds: within each class, or by whole groups
    where `fields.group` names one. With folds no image stands apart."""

    validation: Fraction = 0.1
    """Share of the training images that steers the training, drawn within each class, or by whole
    groups; with folds of the images outside the fold. Unused where validation images stand
    apart."""

    test: Fraction = 0.15
    """Share of the images opened once, for the verdict. Unused where test images stand apart, and
    with folds."""

    decoding: Decoding = Decoding()
    """Decoding of image files to arrays."""

    augment: Augment = Augment()
    """Random changes to the training images."""

    form: ClassVar[str] = "images"
    tasks: ClassVar[tuple[str, ...]] = ("classification", "multilabel")
    samplings: ClassVar[tuple[str, ...]] = ("uniform", "balanced", "blocks")
    sampling_limits: ClassVar[str] = "images have no columns"
    usual_metric: ClassVar[tuple[str, str]] = (
        "accuracy",
        "what is predicted are images of equal weight",
    )
    is_slow_to_improve: ClassVar[bool] = True
    is_augmentable: ClassVar[bool] = True
    can_be_taught: ClassVar[bool] = True

    @property
    def further_baselines(self) -> tuple[str, ...]:
        """A linear model of the colours."""
        return ("colours",)

    @property
    def source(self) -> str:
        """The path of its rows; empty where they are named otherwise."""
        return self.path

    @property
    def folding(self) -> Folded:
        """Whether the rows are cut into folds."""
        return self.split

    @property
    def possible_tasks(self) -> tuple[str, ...]:
        """Several labels of an image, where they are separated; else one."""
        return ("multilabel",) if self.labels.separator else ("classification",)

    @property
    def has_several_targets(self) -> bool:
        """Has an image any number of labels?"""
        return bool(self.labels.separator)

    @property
    def has_label_lists(self) -> bool:
        """As `has_several_targets`."""
        return bool(self.labels.separator)

    def for_size(self, size: tuple[int, ...], /) -> Self:
        """The same for a model that reads images of this height and width; of any size if ()."""
        if self.decoding.size != "auto":
            return self
        chosen = size or "as_is"
        decoding = self.decoding.model_copy(update={"size": chosen})
        return self.model_copy(update={"decoding": decoding})

    @property
    def part_shares(self) -> tuple[str, dict[str, float]]:
        """The section where the shares of the parts stand, and those that are divided off."""
        shares = {"validation": self.validation} if not self.val_path else {}
        if self.split.folds == "off" and not self.test_path:
            shares["test"] = self.test
        return "data", shares

    @property
    def slice_columns(self) -> tuple[str, ...]:
        """The columns that rows can be sliced by; empty where the files say it."""
        return ("label",)

    @property
    def cache_folder(self) -> str:
        """Where what was read and found is kept."""
        return self.decoding.cache

    @property
    def is_augmented(self) -> bool:
        """Are training rows changed at random?"""
        return self.augment.changes

    @property
    def is_blended(self) -> bool:
        """Are training rows blended, so that a row has two labels?"""
        return bool(self.augment.mixup or self.augment.cutmix)
