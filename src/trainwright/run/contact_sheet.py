"""Contact sheet of augmented training images. Needs torch."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from trainwright.contract.reading.read_contract import read_contract
from trainwright.contract.sections.data.images import ImageData
from trainwright.core.errors import Mistake, Problem
from trainwright.core.files import write_atomic
from trainwright.data.base.inputs import Bytes, ImageInputs, Integers
from trainwright.data.images.prepare_images import prepare_images, read_images
from trainwright.data.loading.augment import ImageDataset
from trainwright.data.loading.pixel_rows import build_pixels
from trainwright.data.types import Prepared

_LEAST_SIDE = 64
_GAP = 4
_BETWEEN = 160


def write_contact_sheet(
    contract: Path, overrides: Sequence[str], output: Path, images: int, epochs: int
) -> int:
    """Write a PNG with a row per image: the original, and its augmentation in each epoch; the
    number of rows. The images alternate between the classes.

    Raises:
        Mistake: in the contract or the data, or not a contract for images.
    """
    document = read_contract(contract, overrides)
    section = document.contract.data
    if not section.is_augmentable:
        raise Mistake(
            Problem(
                "only images can be shown",
                path="data.kind",
                found=section.kind,
                expected="images",
                fix="for other data: trainwright data check CONTRACT",
            )
        )
    section = ImageData.of(section)
    raw = read_images(section, document.source.folder)
    prepared = prepare_images(raw, section, document.contract.split_seed)
    rows = _of_all_classes(prepared, images)
    sheet = contact_sheet(prepared, section, document.contract.seed, rows, epochs)
    stream = io.BytesIO()
    Image.fromarray(sheet).save(stream, "PNG")
    write_atomic(output, stream.getvalue())
    return len(rows)


def contact_sheet(
    prepared: Prepared, section: ImageData, seed: int, rows: Integers, epochs: int
) -> Bytes:
    """The sheet as uint8 [H, W, 3]."""
    inputs = ImageInputs.of_kind(prepared.train.inputs)
    labels = torch.from_numpy(prepared.train.target)
    store = ImageDataset(build_pixels(inputs, torch.device("cpu")), labels, section.augment, seed)
    columns = [inputs.take(rows).copied()]
    columns += [
        store.take(epoch, rows)[0].round().to(torch.uint8).numpy()
        if section.augment.mixup
        else store.take(epoch, rows)[0].numpy()
        for epoch in range(epochs)
    ]
    lines = [_line([column[at] for column in columns]) for at in range(len(rows))]
    gap = np.full((_GAP, lines[0].shape[1], 3), _BETWEEN, np.uint8)
    return np.concatenate([part for line in lines for part in (line, gap)][:-1])


def _line(images: Sequence[Bytes]) -> Bytes:
    """Images [C, H, W] side by side, small ones enlarged."""
    tiles = []
    for image in images:
        colours = np.repeat(image, 3 // len(image), axis=0).transpose(1, 2, 0)
        factor = max(1, -(-_LEAST_SIDE // min(colours.shape[:2])))
        tiles.append(colours.repeat(factor, axis=0).repeat(factor, axis=1))
    gap = np.full((tiles[0].shape[0], _GAP, 3), _BETWEEN, np.uint8)
    return np.concatenate([part for tile in tiles for part in (tile, gap)][:-1], axis=1)


def _of_all_classes(prepared: Prepared, most: int) -> Integers:
    """The first training row of each class, then the second of each, and so on."""
    labels = prepared.train.target
    if labels.ndim == 2:  # of several labels, the sets of them
        labels = np.unique(labels, axis=0, return_inverse=True)[1].reshape(-1)
    order = np.argsort(labels, kind="stable")
    starts = np.searchsorted(labels[order], labels[order])
    turn = np.empty(len(labels), np.int64)
    turn[order] = np.arange(len(labels)) - starts
    return np.lexsort((labels, turn))[:most]
