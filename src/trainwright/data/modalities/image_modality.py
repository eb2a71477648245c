"""Images as a kind of data."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import final

import polars as pl

from trainwright.contract.sections.data.images import ImageData
from trainwright.contract.sections.data.sources import Reading
from trainwright.core.errors import Mistake, Problem
from trainwright.data.audit.image_overlap import audit_images
from trainwright.data.base.inputs import Bytes, ImageInputs, Part
from trainwright.data.columns.target import Target
from trainwright.data.encoders.encoding import Encoding
from trainwright.data.encoders.pixel_statistics import Pixels
from trainwright.data.images.prepare_images import (
    labelled_images,
    prepare_image_fold,
    prepare_images,
    read_images,
    unlabelled_images,
)
from trainwright.data.images.raw_images import RawImages
from trainwright.data.images.resolve_source import holds_idx
from trainwright.data.modalities.modality import (
    LookedAt,
    LookLimits,
    Modality,
    NewFile,
    NewFiles,
    NewPart,
    SplitSettings,
)
from trainwright.data.quality.content.image_quality import divided_images, examine_images
from trainwright.data.quality.copies.near_duplicate_images import groups_of_raw
from trainwright.data.quality.examined_data import ExaminedData
from trainwright.data.quality.finding import Finding
from trainwright.data.quality.run_checks import Effort, find_image_faults
from trainwright.data.sources.frames import NO_FRAMES, Frame
from trainwright.data.sources.remote_store import is_remote
from trainwright.data.types import Prepared

MOST_JUDGED = 5_000
"""Sample size of larger image sets for model-based label checks, and for decoding by `check`."""


@final
class ImageModality(Modality[ImageData, RawImages]):
    """Images with a label each, or with any number of labels."""

    section = ImageData

    def read(
        self,
        section: ImageData,
        folder: Path,
        _frames: Mapping[str, Frame] = NO_FRAMES,
        most_rows: int = sys.maxsize,
    ) -> RawImages:
        """As `read_images`."""
        return read_images(section, folder, most_rows)

    def prepare(self, raw: RawImages, split: SplitSettings[ImageData]) -> Prepared:
        """As `prepare_images`."""
        return prepare_images(raw, split.section, split.seed)

    def prepare_fold(
        self, raw: RawImages, split: SplitSettings[ImageData], number: int, /
    ) -> Prepared:
        """As `prepare_image_fold`."""
        return prepare_image_fold(raw, split.section, split.seed, number)

    def look(
        self,
        raw: RawImages,
        prepared: Prepared,
        split: SplitSettings[ImageData],
        _folder: Path,
        _limits: LookLimits,
    ) -> LookedAt:
        """Copies between the parts, and faults of the images."""
        groups = groups_of_raw(raw)
        audited = audit_images(raw, split.section, prepared, split.seed, groups)
        rows, decoded = raw.facts.rows, raw.decoded_rows
        sample = {"rows": rows, "checks": decoded, "labels": min(decoded, MOST_JUDGED)}
        data = divided_images(examine_images(raw), raw, prepared)
        found = find_image_faults(raw, data, groups=groups, most_judged=MOST_JUDGED)
        return LookedAt(audited, (*_sampled(sample), *found), sample)

    def check(
        self,
        section: ImageData,
        folder: Path,
        _split: Callable[[RawImages], SplitSettings[ImageData]],
        seed: int,
        effort: Effort,
        tell: Callable[[str], None],
    ) -> tuple[Finding, ...]:
        """Faults of the images."""
        raw = read_images(section, folder)
        return find_image_faults(raw, _divided(raw, section, seed, tell), effort)

    def rows_as_given(self, _raw: RawImages, part: Part, /) -> Iterator[Bytes]:
        """The pixels."""
        return ImageInputs.of_kind(part.inputs).blocks()

    def read_labelled(
        self, data: str, features: Encoding, target: Target, section: ImageData, _reading: Reading
    ) -> NewPart:
        """A folder, a table, shards, one image or an IDX file."""
        pixels, fields = Pixels.of_kind(features), section.fields
        found = labelled_images(Path(data), pixels, target, fields, section.labels)
        ungrouped = fields.group if fields.group and not found.grouped else ""
        return NewPart(found.part, [found.version], ungrouped, found.notes)

    def read_unlabelled(
        self,
        data: str,
        features: Encoding,
        section: ImageData,
        _reading: Reading,
        keep: Sequence[str],
        /,
    ) -> NewFile:
        """The images, and their names where they have some."""
        if keep:
            raise Mistake(Problem("images have no columns to keep", path="--keep", fix="remove it"))
        new = unlabelled_images(Path(data), Pixels.of_kind(features), section.fields)
        before = pl.DataFrame({"image": new.names}) if new.names else pl.DataFrame()
        return NewFile(new.pixels, before, new.notes)

    def names_of_files(self, section: ImageData, folder: Path, /) -> NewFiles:
        """A folder of images, or one of IDX files."""
        written = section.test_path or section.path
        at = folder / written
        here = str(at / "t10k-images-idx3-ubyte.gz" if holds_idx(at) else at)
        return NewFiles("IMAGES" if is_remote(written) else here, "IMAGES", "LABELLED_IMAGES")


def _sampled(sample: Mapping[str, int]) -> tuple[Finding, ...]:
    """How many images were decoded, and of how many the labels were judged, where not all."""
    decoded, judged, rows = sample["checks"], sample["labels"], sample["rows"]
    if judged == rows:
        return ()
    message = f"labels of {judged:,} of {rows:,} images, evenly spread, were judged by models"
    if decoded < rows:
        message = (
            f"{decoded:,} of {rows:,} images, drawn at random, were decoded, and labels of "
            f"{judged:,} judged by models; of the others header, end and equal bytes were checked: "
            "the training decodes all"
        )
    return (Finding("sampled", "info", message, rows - judged),)


def _divided(
    raw: RawImages, section: ImageData, seed: int, tell: Callable[[str], None]
) -> ExaminedData:
    """Images with their parts; without parts if they cannot be split yet."""
    data = examine_images(raw)
    try:
        return divided_images(data, raw, prepare_images(raw, section, seed))
    except Mistake as mistake:
        tell(f"faults in undivided images, since they cannot be divided: {mistake.problems[0]}")
        return data
