"""Images that are blank, stand in the files twice, or have two labels."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image

from made_pictures import encoded, picture, write_folder
from trainwright.contract.images import ImageData
from trainwright.contract.reading import read_contract
from trainwright.data.images import prepare_images, read_images
from trainwright.data.quality.alike import near_images
from trainwright.data.quality.collect import find_image_faults
from trainwright.data.quality.pictures import divided_images, examine_images
from trainwright.data.raw_images import RawImages
from trainwright.data.reading import DataFacts
from trainwright.data.table import ImageInputs
from trainwright.data.target_column import TargetFacts
from trainwright.doctor.faults import prepared_faults
from trainwright.run.quality import check_contract_data

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
    found = near_images(raw, examine_images(raw))
    assert [one.rows for one in found] == [(10, 25, 70, 80), (70, 80)]
    prepared = prepare_images(raw, IMAGES, 0)
    before_training = prepared_faults(IMAGES, Path(), raw, prepared)
    near = [one.rows for one in before_training if one.kind == "near_duplicates"]
    assert near[0] == (10, 25, 70, 80)
    data = divided_images(examine_images(raw), raw, prepared)
    (across,) = (one for one in near_images(raw, data) if "training row" in one.message)
    pairs = [{place, original} for place, original in copies.items()]
    expected = {
        row for pair in pairs if 0 in data.parts[list(pair)] for row in pair if data.parts[row]
    }
    assert set(across.rows) == expected


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
    assert "cut.png" in told["corrupt_image"].message
    assert [names[row] for row in told["mislabelled_extension"].rows] == ["cat/wrong.png"]
    assert {names[row] for row in told["image_size"].rows} == {"cat/tiny.png", "cat/wide.png"}
