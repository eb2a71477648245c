"""Images that are blank, stand in the files twice, or have two labels."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from made_data import make_images
from made_pictures import encoded, picture, write_folder
from trainwright.contract.reading.read_contract import read_contract
from trainwright.contract.sections.data.images import ImageData
from trainwright.data.base.inputs import ImageInputs
from trainwright.data.columns.target_column import TargetFacts
from trainwright.data.images.prepare_images import prepare_images, read_images
from trainwright.data.images.raw_images import RawImages
from trainwright.data.modalities.image_modality import ImageModality
from trainwright.data.modalities.modality import LookLimits, SplitSettings
from trainwright.data.quality.content.image_quality import divided_images, examine_images
from trainwright.data.quality.copies.near_duplicate_images import groups_of_raw, near_images
from trainwright.data.quality.labels.image_labels import image_label_errors
from trainwright.data.quality.run_checks import find_image_faults
from trainwright.data.read_table import DataFacts
from trainwright.run.after.data_quality import check_contract_data, file_findings

IMAGES = ImageData(kind="images", path="x", validation=0.3)


def test_faults_of_images_have_their_places_in_both_files() -> None:
    random = np.random.default_rng(0)
    train = random.integers(0, 256, (60, 1, 8, 8)).astype(np.uint8)
    test = random.integers(0, 256, (20, 1, 8, 8)).astype(np.uint8)
    labels = {"train": np.arange(60) * 7 % 3, "test": np.arange(20) * 7 % 3}
    train[5], test[4] = 17, 255
    train[9] = train[2]
    labels["train"][9] = labels["train"][2]
    test[7] = train[3]
    labels["test"][7] = (labels["train"][3] + 1) % 3
    target = TargetFacts("classes", {}, 3, 0)
    facts = DataFacts(80, (), target, (), frozenset({"test"}), {"train": 60, "test": 20})
    images = {"train": ImageInputs.of(train), "test": ImageInputs.of(test)}
    raw = RawImages(images, labels, ("a", "b", "c"), facts)
    found = find_image_faults(raw, examine_images(raw))
    rows = {one.kind: one.rows for one in found}
    assert rows["blank_image"] == (5, 64)
    assert rows["exact_duplicates"] == (9,)
    assert rows["conflicting_labels"] == (3, 67)
    (conflict,) = (one for one in found if one.kind == "conflicting_labels")
    assert conflict.severity == "warning"


def test_a_scaled_or_brighter_copy_is_found_on_both_sides_of_the_split() -> None:
    """And images that are merely of one class are not."""
    random = np.random.default_rng(1)
    coarse = random.integers(0, 256, (90, 5, 5, 3)).astype(np.uint8)
    smooth = [np.asarray(Image.fromarray(one).resize((40, 40))) for one in coarse]
    images = np.stack(smooth).transpose(0, 3, 1, 2).copy()
    copies = {10: 3, 25: 4, 70: 5, 80: 6}
    for place, original in copies.items():
        changed = images[original].astype(np.float64) * 0.9 + 12 + random.normal(0, 2, (3, 40, 40))
        images[place] = changed.clip(0, 255).astype(np.uint8)
    labels = {"train": np.arange(60) % 3, "test": np.arange(30) % 3}
    facts = DataFacts(
        90,
        (),
        TargetFacts("classes", {}, 3, 0),
        (),
        frozenset({"test"}),
        {"train": 60, "test": 30},
    )
    parts = {"train": ImageInputs.of(images[:60]), "test": ImageInputs.of(images[60:])}
    raw = RawImages(parts, labels, ("a", "b", "c"), facts)
    found = near_images(examine_images(raw), groups_of_raw(raw))
    assert [one.rows for one in found] == [(10, 25, 70, 80), (70, 80)]
    prepared = prepare_images(raw, IMAGES, 0)
    before_training = (
        ImageModality()
        .look(raw, prepared, SplitSettings(IMAGES, "classification", 0), Path(), LookLimits())
        .faults
    )
    near = [one.rows for one in before_training if one.kind == "near_duplicates"]
    assert near[0] == (10, 25, 70, 80)
    data = divided_images(examine_images(raw), raw, prepared)
    (across,) = (
        one for one in near_images(data, groups_of_raw(raw)) if "training row" in one.message
    )
    pairs = [{place, original} for place, original in copies.items()]
    expected = {
        row for pair in pairs if 0 in data.parts[list(pair)] for row in pair if data.parts[row]
    }
    assert set(across.rows) == expected


def test_images_that_differ_in_colour_alone_are_no_copies() -> None:
    """Of a red one, a darker red copy is found in the other part, and a blue one is not."""
    random = np.random.default_rng(2)
    coarse = random.integers(0, 200, (30, 5, 5)).astype(np.uint8)
    grey = np.stack([np.asarray(Image.fromarray(one).resize((40, 40))) for one in coarse])
    images = np.stack([grey, grey // 2, grey // 2], axis=1)
    images[10] = images[3][::-1]
    images[25] = images[4] * 0.9
    images[26] = images[5][::-1]
    parts = {"train": ImageInputs.of(images[:20]), "test": ImageInputs.of(images[20:])}
    labels = {"train": np.arange(20) % 2, "test": np.arange(10) % 2}
    rows = {"train": 20, "test": 10}
    target = TargetFacts("classes", {}, 2, 0)
    facts = DataFacts(30, (), target, (), frozenset({"test"}), rows)
    groups = groups_of_raw(RawImages(parts, labels, ("a", "b"), facts))
    assert np.flatnonzero(groups.near != np.arange(30)).tolist() == [25]
    assert groups.near[25] == 4


def test_files_tell_what_is_wrong_with_them(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "pets", 30, size=20)
    (folder / "cat" / "wrong.png").write_bytes(encoded(picture(1, 20), "JPEG"))
    (folder / "cat" / "tiny.png").write_bytes(encoded(picture(1, 6)))
    (folder / "cat" / "wide.png").write_bytes(encoded(np.tile(picture(1, 20), (1, 3, 1))))
    (folder / "dog" / "cut.png").write_bytes(encoded(picture(2, 20))[:60])
    contract = tmp_path / "contract.yaml"
    contract.write_text(
        "data: {kind: images, path: pets, decoding: {size: [20, 20], corrupt: drop}}\n"
        "model: {kind: linear}\n"
    )
    found = check_contract_data(contract, "", "all", lambda _: None)
    told = {one.kind: one for one in found}
    raw = read_images(read_contract(contract, []).contract.data, tmp_path)
    names = raw.records["train"]["name"]
    assert told["corrupt_image"].count == 1
    assert told["corrupt_image"].message == "1 unreadable image excluded: 'dog/cut.png'"
    assert [names[row] for row in told["mislabelled_extension"].rows] == ["cat/wrong.png"]
    assert {names[row] for row in told["image_size"].rows} == {"cat/tiny.png", "cat/wide.png"}


def blobs(count: int, shift: int, random: np.random.Generator) -> np.ndarray:
    """Images of 16 x 16, uint8 [N, 1, 16, 16], with a bright square on the side of their class."""
    images = random.normal(20, 8, (count, 1, 16, 16))
    images[np.arange(count), :, 4:12, shift : shift + 6] += 120
    return images.clip(0, 255).astype(np.uint8)


@pytest.mark.extended
def test_swapped_labels_of_images_are_found() -> None:
    random = np.random.default_rng(0)
    pixels = np.concatenate([blobs(150, 1, random), blobs(150, 9, random)])
    labels = np.repeat([0, 1], 150)
    facts = DataFacts(300, (), TargetFacts("classes", {}, 2, 0), (), frozenset(), {"train": 300})
    images = {"train": ImageInputs.of(pixels)}
    clean = RawImages(images, {"train": labels}, ("left", "right"), facts)
    assert image_label_errors(clean, examine_images(clean), 10_000) == []
    planted = list(range(7, 300, 19))
    swapped = labels.copy()
    swapped[planted] = 1 - swapped[planted]
    raw = RawImages(images, {"train": swapped}, ("left", "right"), facts)
    (found,) = image_label_errors(raw, examine_images(raw), 10_000)
    assert found.kind == "label_error"
    assert set(found.rows) <= set(planted)
    assert len(found.rows) >= 12
    assert found in find_image_faults(raw, examine_images(raw))
    (among,) = image_label_errors(raw, examine_images(raw), 200)
    assert among.message.endswith("(among the 200 images checked)")
    assert set(among.rows) <= set(planted)
    noise = random.integers(0, 256, pixels.shape).astype(np.uint8)
    blind = RawImages({"train": ImageInputs.of(noise)}, {"train": swapped}, raw.names, facts)
    assert image_label_errors(blind, examine_images(blind), 10_000) == []


def test_noise_on_an_even_ground_hides_no_copy() -> None:
    random = np.random.default_rng(0)
    pixels = np.zeros((80, 1, 28, 28))
    for image in pixels:
        for _ in range(3):
            top, left = random.integers(2, 18, 2)
            image[0, top : top + 8, left : left + 8] += random.integers(60, 85)
    pixels[70:] = (pixels[:10] + random.normal(0, 3, (10, 1, 28, 28))).clip(0, 255)
    images = {"train": ImageInputs.of(pixels.astype(np.uint8))}
    facts = DataFacts(80, (), TargetFacts("classes", {}, 2, 0), (), frozenset(), {"train": 80})
    raw = RawImages(images, {"train": np.arange(80) % 2}, ("a", "b"), facts)
    (found,) = near_images(examine_images(raw), groups_of_raw(raw))
    assert len(set(found.rows) & set(range(70, 80))) >= 9
    assert set(found.rows) <= set(range(70, 80))


def test_a_folder_of_idx_files_is_looked_at(tmp_path: Path) -> None:
    """No file of them can be left out, which is asked for elsewhere."""
    folder = make_images(tmp_path / "digits")
    found = file_findings(str(folder), "", "all", lambda _: None)
    assert [one.kind for one in found if one.severity == "error"] == []
