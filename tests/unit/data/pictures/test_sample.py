"""Of many image files `check` decodes a sample, and looks at header and end of the others."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from command import command, inside
from made_pictures import encoded, picture, write_folder
from trainwright.contract.sections.data.images import Decoding, ImageData
from trainwright.core.errors import DataMistake
from trainwright.data.audit.image_overlap import audit_images
from trainwright.data.encoders.pixel_statistics import Rule
from trainwright.data.images import decoded_cache
from trainwright.data.images.decode import ImageFault, decode, examine_file
from trainwright.data.images.prepare_images import prepare_images, read_images
from trainwright.data.quality.content.image_quality import examine_images
from trainwright.data.quality.copies.near_duplicate_images import groups_of_raw
from trainwright.data.quality.run_checks import find_image_faults

RULE = Rule.of(Decoding(size=(12, 12)))


def section(**decoding: object) -> ImageData:
    given = {"cache": "kept", **decoding}
    return ImageData.model_validate_json(
        json.dumps({"kind": "images", "path": "pets", "decoding": given})
    )


def large(row: int) -> np.ndarray:
    """Noise, which packs into many bytes."""
    return np.random.default_rng(row).integers(0, 256, (40, 40, 3)).astype(np.uint8)


def outside(folder: Path) -> Path:
    """A file that is not in the sample of 20."""
    raw = read_images(section(), folder, 20)
    names = raw.records["train"]["name"].to_list()
    place = min({*range(1, 60)} - {*raw.decoded()[0].tolist()})
    return folder / "pets" / names[place]


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "GIF", "WEBP", "BMP", "TIFF", "PPM"])
def test_what_decoding_refuses_is_refused_by_header_and_end(kind: str) -> None:
    data = encoded(large(0), kind)
    whole = examine_file(data, RULE)
    decoded = decode(data, RULE)
    assert not isinstance(whole, ImageFault)
    assert not isinstance(decoded, ImageFault)
    assert whole == decoded[1]
    for kept_bytes in (0, 10, len(data) // 3, len(data) // 2, len(data) - 70, len(data) - 1):
        cut = data[:kept_bytes]
        refused = decode(cut, RULE)
        assert isinstance(examine_file(cut, RULE), ImageFault) == isinstance(refused, ImageFault)
    padded = data + bytes(20)
    assert isinstance(examine_file(padded, RULE), ImageFault) == isinstance(
        decode(padded, RULE), ImageFault
    )


def test_a_sample_is_decoded_and_everything_else_is_known_of_all(tmp_path: Path) -> None:
    write_folder(tmp_path / "pets")
    whole, sample = read_images(section(), tmp_path), read_images(section(), tmp_path, 20)
    again = read_images(section(), tmp_path, 20)
    places, (inputs,) = sample.decoded()
    assert len(places) == len(set(places.tolist())) == 20
    assert np.array_equal(inputs.copied(), whole.images["train"].take(places).copied())
    assert np.array_equal(again.decoded()[1][0].copied(), inputs.copied())
    assert np.array_equal(sample.labels["train"], whole.labels["train"])
    assert sample.records["train"].equals(whole.records["train"])
    assert (sample.facts, sample.rule) == (whole.facts, whole.rule)
    both = [prepare_images(one, section(), 0) for one in (whole, sample)]
    assert np.array_equal(both[0].train.rows, both[1].train.rows)
    assert both[0].split == both[1].split
    with pytest.raises(AssertionError, match="sample"):
        sample.images["train"].copied()


def test_few_files_are_decoded_every_one(tmp_path: Path) -> None:
    write_folder(tmp_path / "pets")
    raw = read_images(section(), tmp_path, 60)
    assert not raw.is_sample
    assert raw.decoded()[1][0] is raw.images["train"]


@pytest.mark.parametrize("corrupt", ["fail", "drop"])
def test_a_cut_file_outside_of_the_sample_is_found(corrupt: str, tmp_path: Path) -> None:
    write_folder(tmp_path / "pets")
    cut = outside(tmp_path)
    cut.write_bytes(cut.read_bytes()[:-20])
    chosen = section(corrupt=corrupt)
    if corrupt == "fail":
        with pytest.raises(DataMistake, match="damaged or cut off"):
            read_images(chosen, tmp_path, 20)
        return
    sample, whole = read_images(chosen, tmp_path, 20), read_images(chosen, tmp_path)
    assert sample.left_out == whole.left_out
    assert sample.records["train"].equals(whole.records["train"])
    places, (inputs,) = sample.decoded()
    assert np.array_equal(inputs.copied(), whole.images["train"].take(places).copied())


def test_other_sizes_are_told_of_all(tmp_path: Path) -> None:
    write_folder(tmp_path / "pets")
    outside(tmp_path).write_bytes(encoded(picture(3, 15)))
    with pytest.raises(DataMistake, match="another size"):
        read_images(section(size="as_is"), tmp_path, 20)


def test_equal_files_are_found_among_all(tmp_path: Path) -> None:
    pets = write_folder(tmp_path / "pets")
    for row in range(0, 30):
        data = (pets / ("bird", "cat", "dog")[row % 3] / f"{row:04d}.png").read_bytes()
        (pets / ("bird", "cat", "dog")[row % 3] / f"again{row:04d}.png").write_bytes(data)
    found = []
    for most in (1000, 20):
        raw = read_images(section(), tmp_path, most)
        prepared, groups = prepare_images(raw, section(), 0), groups_of_raw(raw)
        exact, _ = audit_images(raw, section(), prepared, 0, groups)
        faults = find_image_faults(raw, examine_images(raw), groups=groups)
        copies = [one.rows for one in faults if one.kind == "exact_duplicates"]
        found.append((exact.verdict, exact.count, exact.rows, copies[0]))
    assert found[0] == found[1]
    assert found[0][0] == "leak"
    assert len(found[0][3]) == 30


def test_near_copies_of_a_sample_stand_for_those_of_all(tmp_path: Path) -> None:
    """Every second image is a brighter one of the image before it; half of them are decoded."""
    pets = tmp_path / "pets"
    random = np.random.default_rng(0)
    for row in range(150):
        (pets / f"c{row % 2}").mkdir(parents=True, exist_ok=True)
        values = np.kron(random.integers(0, 200, (6, 6, 3)), np.ones((4, 4, 1)))
        for name, lighter in (("a", 0), ("b", 9)):
            file = pets / f"c{row % 2}" / f"{row:04d}{name}.png"
            file.write_bytes(encoded((values + lighter).astype(np.uint8)))
    chosen = section()
    shares = []
    for most in (1000, 150):
        raw = read_images(chosen, tmp_path, most)
        prepared = prepare_images(raw, chosen, 0)
        shares.append(audit_images(raw, chosen, prepared, 0, groups_of_raw(raw))[1])
    whole, sample = shares
    assert [one.verdict for one in shares] == ["leak", "leak"]
    assert "about" not in whole.message
    assert "of the training images: about" in sample.message
    assert sample.count < whole.count / 2
    assert abs(sample.number - whole.number) < 0.2


def test_check_says_how_many_it_decoded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_folder(tmp_path / "pets")
    contract = (
        "data: {kind: images, path: pets, decoding: {cache: kept}}\n"
        "model: {kind: resnet, width: 4}\ntraining: {num_epochs: 1}\n"
    )
    (tmp_path / "c.yaml").write_text(contract)
    decoded: list[int] = []
    decode_one = decoded_cache.decode

    def counted(data: bytes, rule: Rule) -> object:
        decoded.append(len(data))
        return decode_one(data, rule)

    monkeypatch.setattr(decoded_cache, "decode", counted)
    said = []
    for most in (60, 20):
        monkeypatch.setattr("trainwright.cli.check.MOST_JUDGED", most)
        monkeypatch.setattr("trainwright.data.modalities.image_modality.MOST_JUDGED", most)
        decoded.clear()
        with inside(tmp_path):
            done = command("check", "c.yaml", "--json")
        assert len(decoded) == most
        report = json.loads(done.out)
        said.append([one["message"] for one in report["findings"] if one["kind"] == "sampled"])
        assert report["sample"]["checks"] == most
    assert said[0] == []
    assert "20 of 60 images, drawn at random, were decoded" in said[1][0]
