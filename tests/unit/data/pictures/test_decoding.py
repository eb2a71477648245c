"""The rule by which image files become pixels."""

from __future__ import annotations

import io
import struct
import zlib
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageOps

from faults.tiers import times
from made_pictures import encoded, picture, sixteen_bit_png, sixteen_bit_tiff
from trainwright.data.encoders.pixel_statistics import Rule
from trainwright.data.images.decode import (
    SUFFIXES,
    Header,
    ImageFault,
    decode,
    examine_file,
    look,
    measure_wide,
)

RULE = Rule((0, 0), "rgb", "stretch", "bilinear", 1_000_000)
GREY = Rule((0, 0), "grey", "stretch", "bilinear", 1_000_000)


def saved(image: Image.Image, kind: str = "PNG", **options: object) -> bytes:
    stream = io.BytesIO()
    image.save(stream, kind, **options)
    return stream.getvalue()


def pixels(data: bytes, rule: Rule = RULE) -> np.ndarray:
    made = decode(data, rule)
    assert not isinstance(made, ImageFault), made
    return made[0]


@pytest.mark.parametrize("kind", ["PNG", "BMP", "TIFF", "PPM", "GIF", "WEBP"])
def test_a_lossless_file_of_each_format_is_its_pixels(kind: str) -> None:
    values = np.random.default_rng(0).integers(0, 4, (9, 7, 3)).astype(np.uint8) * 80
    options = {"lossless": True} if kind == "WEBP" else {}
    found = pixels(saved(Image.fromarray(values), kind, **options))
    np.testing.assert_array_equal(found, values.transpose(2, 0, 1))
    assert kind in SUFFIXES.values()


@pytest.mark.parametrize("cut", [1, 4, 12, 13, 16, 20, 100])
def test_a_png_that_ends_early_is_damaged(cut: int) -> None:
    """Also where only checksums and the last chunk are missing, and Pillow reads every pixel."""
    whole = saved(Image.fromarray(picture(1, 40)))
    made = decode(whole[:-cut], RULE)
    assert isinstance(made, ImageFault)
    assert made.droppable
    assert made.message == "the image is damaged or cut off"
    assert not isinstance(decode(whole + b"more", RULE), ImageFault)


def test_a_png_of_which_a_byte_was_changed_is_damaged() -> None:
    whole = bytearray(saved(Image.fromarray(picture(1, 40))))
    end = whole.index(b"IEND") - 8
    whole[end] ^= 1
    made = decode(bytes(whole), RULE)
    assert isinstance(made, ImageFault)
    assert "checksum" in made.found


@pytest.mark.parametrize("turn", range(1, 9))
def test_orientation_is_applied_to_pixels_and_header(turn: int) -> None:
    values = picture(4)[:, :7]
    image = Image.fromarray(values)
    exif = image.getexif()
    exif[0x0112] = turn
    data = saved(image, "PNG", exif=exif)
    expected = np.asarray(ImageOps.exif_transpose(Image.open(io.BytesIO(data))))
    np.testing.assert_array_equal(pixels(data), expected.transpose(2, 0, 1))
    header = look(data, 10_000)
    assert not isinstance(header, ImageFault)
    assert (header.height, header.width) == expected.shape[:2]


def test_transparent_pixels_are_laid_over_white() -> None:
    values = np.zeros((1, 3, 4), np.uint8)
    values[0, :, 0] = 200
    values[0, :, 3] = (0, 255, 51)
    found = pixels(saved(Image.fromarray(values)))[:, 0].T
    assert found.tolist() == [[255, 255, 255], [200, 0, 0], [244, 204, 204]]
    both = Image.fromarray(np.array([[[0, 0], [0, 255]]], np.uint8), "LA")
    assert pixels(saved(both), GREY)[0, 0].tolist() == [255, 0]


def test_a_palette_becomes_its_colours_before_it_is_scaled() -> None:
    image = Image.fromarray(picture(3)).quantize(8)
    expected = np.asarray(image.convert("RGB").resize((5, 4), Image.Resampling.BILINEAR))
    found = pixels(saved(image), RULE.sized(4, 5))
    np.testing.assert_array_equal(found, expected.transpose(2, 0, 1))
    see_through = saved(image, "PNG", transparency=0)
    index = np.asarray(image) == 0
    assert (pixels(see_through).transpose(1, 2, 0)[index] == 255).all()


def test_sixteen_bits_are_divided_by_257() -> None:
    values = np.array([[0, 128, 129, 257, 40_000, 65_535]], np.uint16)
    found = pixels(saved(Image.fromarray(values)), GREY)[0, 0]
    assert found.tolist() == [0, 0, 1, 1, 156, 255]
    assert np.array_equal(pixels(saved(Image.fromarray(values)))[1, 0], found)


@pytest.mark.parametrize("kind", ["png", "tiff", "tiff_adobe_deflate"])
@pytest.mark.parametrize("channels", [3, 4])
def test_colours_of_sixteen_bits_keep_their_digits(kind: str, channels: int) -> None:
    """Pillow keeps the high byte of each channel: of 12 bits a sixteenth."""
    values = np.random.default_rng(0).integers(1000, 4000, (6, 5, channels)).astype(np.uint16)
    values[..., 3:] = 65_535
    values[0, 0, :2] = 1000, 3999
    options = {"compression": kind} if kind == "tiff_adobe_deflate" else {}
    data = sixteen_bit_png(values) if kind == "png" else sixteen_bit_tiff(values, **options)
    assert measure_wide(data, 1000) == (1000, 3999)
    expected = np.round((values[..., :3].astype(np.float64) - 1000) * 255 / 2999)
    found = pixels(data, replace(RULE, wide=(1000, 3999)))
    np.testing.assert_array_equal(found, expected.transpose(2, 0, 1))
    for ends, exceeds in (((1000, 3999), False), ((1000, 3998), True), ((1001, 3999), True)):
        header = examine_file(data, replace(RULE, wide=ends))
        assert isinstance(header, Header)
        assert header.exceeds is exceeds


def test_orientation_is_applied_to_both_bytes() -> None:
    values = np.random.default_rng(0).integers(0, 65_536, (6, 5, 3)).astype(np.uint16)
    png, exif = sixteen_bit_png(values), Image.Exif()
    exif[0x0112] = 6
    body = b"eXIf" + exif.tobytes().removeprefix(b"Exif\0\0")
    chunk = struct.pack(">I", len(body) - 4) + body + struct.pack(">I", zlib.crc32(body))
    found = pixels(png[:33] + chunk + png[33:])
    np.testing.assert_array_equal(found, np.rot90(pixels(png), -1, (1, 2)))


def test_see_through_colours_of_sixteen_bits_are_laid_over_white() -> None:
    values = np.full((2, 2, 4), 4095, np.uint16)
    values[..., 0] = 0
    values[0, 0, 3] = 65_535
    values[1, 1, 3] = 0
    found = pixels(sixteen_bit_png(values), replace(RULE, wide=(0, 4095)))
    assert found[:, 0, 0].tolist() == [0, 255, 255]
    assert found[:, 1, 1].tolist() == [255, 255, 255]


def test_sixteen_bits_of_another_layout_are_refused() -> None:
    grey = sixteen_bit_png(np.full((4, 4, 2), 999, np.uint16))
    planes = sixteen_bit_tiff(np.full((4, 4, 3), 999, np.uint16))
    one, two = (struct.pack("<HHIHH", 284, 3, 1, planar, 0) for planar in (1, 2))
    assert one in planes
    for data in (grey, planes.replace(one, two)):
        for made in (decode(data, RULE), examine_file(data, RULE)):
            assert isinstance(made, ImageFault)
            assert made.message == "colours of 16 bits in a layout that cannot be read"


def test_grey_is_the_luma_and_one_bit_is_black_and_white() -> None:
    values = np.array([[[255, 0, 0], [0, 255, 0], [0, 0, 255]]], np.uint8)
    assert pixels(saved(Image.fromarray(values)), GREY)[0, 0].tolist() == [76, 150, 29]
    bits = Image.fromarray(np.array([[0, 255]], np.uint8)).convert("1")
    assert pixels(saved(bits), GREY)[0, 0].tolist() == [0, 255]
    assert pixels(saved(bits)).shape == (3, 1, 2)


def test_cmyk_becomes_rgb() -> None:
    image = Image.new("CMYK", (3, 3), (0, 0, 0, 0))
    assert pixels(saved(image, "TIFF")).min() == 255


def test_a_shape_is_stretched_cut_or_padded() -> None:
    wide = np.zeros((10, 30, 3), np.uint8)
    wide[:, 10:20] = 250
    data = encoded(wide)
    sized = {fit: Rule((10, 10), "grey", fit, "box", 10_000) for fit in ("stretch", "crop", "pad")}
    found = {fit: pixels(data, rule)[0] for fit, rule in sized.items()}
    assert found["crop"].min() == 250
    assert found["pad"][0].max() == 0
    assert found["pad"][5].max() == 250
    assert found["stretch"][5, 5] == 250
    assert found["stretch"][5, 0] == 0


def test_several_pictures_of_one_scene_are_the_first() -> None:
    frames = [Image.fromarray(picture(row)) for row in range(2)]
    data = saved(frames[0], "MPO", save_all=True, append_images=frames[1:])
    assert pixels(data).shape == (3, 12, 12)


def test_a_header_alone_is_held_against_the_limit() -> None:
    data = saved(Image.new("1", (2000, 2000)))
    assert len(data) < 2000
    for made in (decode(data, RULE), look(data, 1_000_000)):
        assert isinstance(made, ImageFault)
        assert "more pixels" in made.message
    assert not isinstance(look(data, 4_000_000), ImageFault)


@settings(max_examples=times(50, 200), deadline=None)
@given(st.data())
def test_damaged_files_give_a_fault_or_pixels_and_never_an_error(data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(["PNG", "JPEG", "GIF", "BMP", "WEBP", "TIFF", "PPM"]))
    whole = bytearray(encoded(picture(data.draw(st.integers(0, 5))), kind))
    for _ in range(data.draw(st.integers(1, 6))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(whole)))
    for one in (bytes(whole), bytes(whole[:cut])):
        made = decode(one, RULE.sized(6, 6))
        assert isinstance(made, ImageFault) or made[0].shape == (3, 6, 6)


def test_a_file_that_is_cut_anywhere_gives_a_fault_or_pixels_and_never_an_error() -> None:
    """Also where only its frames are counted, or its header asked for."""
    frames = [Image.fromarray(picture(row)) for row in range(3)]
    animated = saved(frames[0], "GIF", save_all=True, append_images=frames[1:])
    for whole in (animated, encoded(picture(0))):
        for cut in range(len(whole)):
            for made in (decode(whole[:cut], RULE), look(whole[:cut], RULE.most_pixels)):
                assert isinstance(made, (ImageFault, Header, tuple))
    for place in range(len(animated)):
        damaged = animated[:place] + bytes([animated[place] ^ 0x21]) + animated[place + 1 :]
        assert isinstance(decode(damaged, RULE), (ImageFault, tuple))
        assert isinstance(look(damaged, RULE.most_pixels), (ImageFault, Header))


def test_a_rule_is_kept_as_it_was() -> None:
    rule = Rule((12, 9), "grey", "crop", "lanczos", 77)
    assert Rule.from_json(rule.to_json()) == rule
