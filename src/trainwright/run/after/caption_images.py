"""Captions of images by the vision-language model of a run. Needs torch."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, final

from trainwright.contract.sections.data.captions import CaptionData
from trainwright.contract.sections.data.images import ImageFields
from trainwright.contract.sections.data.sources import USUAL
from trainwright.contract.sections.model import kinds_with
from trainwright.core.errors import Mistake, Problem
from trainwright.core.files import read_json
from trainwright.data.base.inputs import Bytes
from trainwright.data.captions.caption_encoding import CaptionEncoding, CaptionText
from trainwright.data.images.image_table import names_table
from trainwright.data.images.prepare_images import unlabelled_images
from trainwright.data.sources.find_source import read_source
from trainwright.predictor.image_captions import CaptionWriter
from trainwright.predictor.text_generation import DecodingOptions
from trainwright.run.folder.check_own_files import read_own_bundle
from trainwright.run.folder.planned_contract import read_planned
from trainwright.tracking.run_folder import RunFolder


@final
class AskedImage(NamedTuple):
    """An image, uint8 [C, H, W], its name and what is asked of it."""

    name: str
    question: str
    pixels: Bytes


@final
class ImageCaptions(NamedTuple):
    """What writes of images, and how it reads them."""

    writer: CaptionWriter
    encoding: CaptionEncoding
    section: CaptionData


def writes_of_images(folder: RunFolder) -> bool:
    """Is the model of a run one that writes of images?"""
    if not folder.plan.is_file():
        return False
    contract = read_json(folder.plan).get("contract") or {}
    kinds = kinds_with(lambda traits: traits.describes_images)
    return (contract.get("model") or {}).get("kind") in kinds


def open_captions(folder: RunFolder, decoding: DecodingOptions) -> ImageCaptions:
    """The model of a finished run that writes of images.

    Raises:
        Mistake: the run is not finished. StorageFailed: its files were changed.
    """
    if not folder.bundle.exists():
        raise Mistake(
            Problem(
                f"run {folder.name} has no model that writes of images",
                found=f"no {folder.bundle.name}: it is not finished",
                expected="a finished run",
                fix="resume it, or train one",
            )
        )
    predictor, section = read_own_bundle(folder), CaptionData.of(read_planned(folder).data)
    writer = CaptionWriter(predictor, decoding)
    return ImageCaptions(writer, CaptionEncoding.of_kind(predictor.features), section)


def read_asked_images(
    captions: ImageCaptions, data: Path, question: str = ""
) -> Iterator[AskedImage]:
    """The images of a file, a folder or a table, in order; of a table with the questions of its
    rows where the model answers some, of others with one `question`.

    Raises:
        DataMistake: they cannot be read. Mistake: a question is missing, or has no place.
    """
    encoding, text = captions.encoding, captions.encoding.text
    asked = _questions(text, data, question)
    fields = ImageFields(image=captions.section.image)
    images, names, _ = unlabelled_images(data, encoding.pixels, fields)
    inputs = encoding.pixels.read(images)
    for at in range(len(inputs)):
        name = names[at] if names else str(at)
        yield AskedImage(name, asked[at] if asked else question, inputs.copied(at, at + 1)[0])


def _questions(text: CaptionText, data: Path, question: str) -> list[str]:
    """The questions of the rows of a table; empty where one question is asked of all images."""
    if question and not text.question:
        raise Mistake(
            Problem(
                "the model was trained without questions",
                path="--question",
                found=question[:80],
                fix="leave it out, or train with data.question",
            )
        )
    if not text.question or question:
        return []
    if names_table(str(data)):
        frame = read_source(str(data), Path(), "--from", USUAL).frame
        if text.question in frame.columns:
            return text.questions(frame)
    raise Mistake(
        Problem(
            "the model answers questions about images, and none is asked",
            path="--question",
            expected=f"--question TEXT, or a table with a column {text.question!r}",
            fix="ask one",
        )
    )
