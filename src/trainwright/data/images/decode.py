"""Decoding of image files to arrays, with the reason of a failure: truncation, checksums.

Nothing is trusted: the content says the format, only formats of images are tried (no plugin that
starts a program, as Pillow's for PostScript does), and no pixel is unpacked before the header's
claim has been held against the limit.
"""

from __future__ import annotations

import io
import struct
import sys
import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar, assert_never, final

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageFile, ImageOps, UnidentifiedImageError
from PIL.TiffImagePlugin import TiffImageFile

from trainwright.core.limits import MOST_JPEG_SCANS
from trainwright.data.base.inputs import Bytes
from trainwright.data.encoders.pixel_statistics import ALL_WIDE, Rule

_SIGNATURE_BYTES = 8
_HEAD, _SUM = struct.Struct(">I4s"), struct.Struct(">I")
_LAST = b"IEND"

_TAIL_BYTES = 64
"""Some writers pad a file: so far from its end its last marker may stand."""

T = TypeVar("T")

FORMATS = ("PNG", "JPEG", "GIF", "BMP", "WEBP", "TIFF", "PPM")
"""The formats that are read, as Pillow calls them."""

SUFFIXES = {
    ".png": "PNG",
    ".jpg": "JPEG",
    ".jpeg": "JPEG",
    ".gif": "GIF",
    ".bmp": "BMP",
    ".webp": "WEBP",
    ".tif": "TIFF",
    ".tiff": "TIFF",
    ".ppm": "PPM",
    ".pgm": "PPM",
    ".pbm": "PPM",
}
"""What a file's name says it is."""

_JPEG = ("JPEG", "MPO")
_JPEG_BEGINS, _PNG_BEGINS = b"\xff\xd8", b"\x89PNG"

_STILL = ("MPO",)
"""Formats with several pictures of one scene, of which the first is the image: phones write them as
.jpg."""

_SCAN = b"\xff\xda"
"""The marker of a scan of a JPEG. Pixels hold no such bytes: a zero stands behind each 0xff."""

_OTHER_ORDER = {
    "RGB;16B": "RGB;16L",
    "RGB;16L": "RGB;16B",
    "RGB;16N": "RGB;16B" if sys.byteorder == "little" else "RGB;16L",
    "RGBA;16B": "RGBA;16L",
    "RGBA;16L": "RGBA;16B",
    "RGBA;16N": "RGBA;16B" if sys.byteorder == "little" else "RGBA;16L",
}
"""Raw modes of Pillow for channels of 16 bits, of which it keeps the high byte, and those that keep
the low byte of the same file."""

_BITS_PER_SAMPLE, _PLANAR_CONFIGURATION = 258, 284
"""Tags of TIFF."""

_TURNED = frozenset({5, 6, 7, 8})
_FILTERS = {
    "nearest": Image.Resampling.NEAREST,
    "box": Image.Resampling.BOX,
    "bilinear": Image.Resampling.BILINEAR,
    "bicubic": Image.Resampling.BICUBIC,
    "lanczos": Image.Resampling.LANCZOS,
}
_ORIENTATION = 0x0112
_WHITE = 255


def damage_of(data: bytes) -> str:
    """What is wrong with the chunks of a PNG file (PNG 1.2, section 3.2): one that ends early, has
    another checksum than it says, or no last one; empty if nothing is."""
    at = _SIGNATURE_BYTES
    view = memoryview(data)
    while at + _HEAD.size <= len(data):
        length, kind = _HEAD.unpack_from(data, at)
        end = at + _HEAD.size + length
        name = kind.decode("latin-1")
        if end + _SUM.size > len(data):
            return f"a chunk {name!r} of {length:,} bytes ends early"
        # Chunks that a reader may pass over begin with a small letter.
        critical = name[:1].isupper()
        if critical and zlib.crc32(view[at + 4 : end]) != _SUM.unpack_from(data, end)[0]:
            return f"a chunk {name!r} does not have the checksum that it says"
        if kind == _LAST:
            return ""
        at = end + _SUM.size
    return "the last chunk is missing"


def ends_whole(kind: str, data: bytes) -> bool:
    """Whether a file of a format, as Pillow calls it, ends as a whole one does: by its last marker
    (JPEG, T.81, section B.2.1; GIF 89a, section 27), by its chunks and their checksums (PNG), or by
    the size that it says of itself (WebP, BMP). The end of other formats shows nothing: no."""
    match kind:
        case "JPEG" | "MPO":
            return b"\xff\xd9" in data[-_TAIL_BYTES:]
        case "GIF":
            return data.rstrip(b"\0").endswith(b";")
        case "PNG":
            return not damage_of(data)
        case "WEBP":
            return int.from_bytes(data[4:8], "little") + 8 <= len(data)
        case "BMP":
            return 0 < int.from_bytes(data[2:6], "little") <= len(data)
        case _:
            return False


@final
@dataclass(frozen=True, slots=True)
class ImageFault:
    """Why an image cannot be read. Only what is `droppable` may be skipped: the rest is no broken
    image but an attempt, or a mistake of the whole data."""

    message: str
    found: str = ""
    expected: str = ""
    fix: str = ""
    droppable: bool = True


@final
@dataclass(frozen=True, slots=True)
class Header:
    """Image header: the format by its Pillow name, and height and width after orientation. `grey`
    says whether it has one channel, `exceeds` whether pixels of 16 bits exceed the range of the
    rule, which is known when they were decoded."""

    format: str
    height: int
    width: int
    grey: bool
    exceeds: bool = False


def look(data: bytes, most_pixels: int) -> Header | ImageFault:
    """Read the header of an image file without decoding pixels."""
    return _with_image(data, most_pixels, _header)


def examine_file(data: bytes, rule: Rule) -> Header | ImageFault:
    """What the header of an image file says, or why `decode` would refuse it, as far as header,
    mode and end of the file show: pixels are unpacked only where these leave it open."""
    seen = _with_image(data, rule.most_pixels, lambda opened: (_is_wide(opened), _header(opened)))
    if isinstance(seen, ImageFault):
        return seen
    is_wide, header = seen
    if not is_wide and ends_whole(header.format, data):
        return header
    found = decode(data, rule)
    return found if isinstance(found, ImageFault) else found[1]


def decode(data: bytes, rule: Rule) -> tuple[Bytes, Header] | ImageFault:
    """An image file as uint8 [C, H, W] under a rule, with what its header says.

    Images of another size than that of the rule are resized; under size (0, 0) they stay.
    """

    def read(opened: Image.Image) -> tuple[Bytes, Header] | ImageFault:
        if opened.format == "PNG" and (damage := damage_of(data)):
            return _damaged(damage)
        wide = _read_wide(opened, data) if _is_wide(opened) else None
        if isinstance(wide, ImageFault):
            return wide
        header = _header(opened)
        image = ImageOps.exif_transpose(opened)
        if wide is not None:
            exceeds = bool(wide.min() < rule.wide[0] or wide.max() > rule.wide[1])
            header = replace(header, exceeds=exceeds)
            image = _narrow(image, wide, rule.wide)
        values = np.asarray(_sized(_flat(image, rule), rule), np.uint8)
        planes = values[None] if values.ndim == 2 else values.transpose(2, 0, 1)
        return np.ascontiguousarray(planes), header

    return _with_image(data, rule.most_pixels, read)


def measure_wide(data: bytes, most_pixels: int) -> tuple[int, int] | None:
    """The least and the largest pixel of a file of 16 bits; None of any other."""
    if data[:2] == _JPEG_BEGINS or (data[:4] == _PNG_BEGINS and data[24:25] != b"\x10"):
        return None

    def read(opened: Image.Image) -> tuple[int, int] | None:
        wide = _read_wide(opened, data) if _is_wide(opened) else None
        return (int(wide.min()), int(wide.max())) if isinstance(wide, np.ndarray) else None

    measured = _with_image(data, most_pixels, read)
    return None if isinstance(measured, ImageFault) else measured


def _with_image(data: bytes, most_pixels: int, read: Callable[[Image.Image], T]) -> T | ImageFault:
    """The image as `read` decodes it, or why it cannot be read."""
    opened = _open(data, most_pixels)
    if isinstance(opened, ImageFault):
        return opened
    try:
        with opened:
            return read(opened)
    # Each plugin raises what its parser stumbles over: OSError, SyntaxError, struct.error, ...
    except Exception as error:
        return _broken(error)


def _open(data: bytes, most_pixels: int) -> Image.Image | ImageFault:
    if not data:
        return ImageFault(
            "the file is empty", found="0 bytes", fix="copy the file again, or remove it"
        )
    try:
        opened = Image.open(io.BytesIO(data), formats=FORMATS)
        if opened.format in _JPEG and (scans := data.count(_SCAN)) > MOST_JPEG_SCANS:
            return _too_many_scans(scans)
        return _still(opened, len(data), most_pixels)
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        return _too_large(str(error).split(",")[0], most_pixels)
    except UnidentifiedImageError:
        return ImageFault(
            "this is no image that can be read",
            found=f"a file that begins with {data[:8].hex(' ')}",
            expected=f"one of: {', '.join(FORMATS)}",
            fix="convert it to PNG or JPEG, or remove it",
        )
    # To count the frames of a damaged file may raise anything, too.
    except Exception as error:
        return _broken(error)


def _still(opened: Image.Image, size_bytes: int, most_pixels: int) -> Image.Image | ImageFault:
    """A single image that is not too large."""
    width, height = opened.size
    if width * height > most_pixels:
        return _too_large(f"{width:,} x {height:,} pixels in {size_bytes:,} bytes", most_pixels)
    if opened.format not in _STILL and getattr(opened, "is_animated", False):
        return ImageFault(
            "this is a sequence of images",
            found=f"{opened.format} with several frames",
            expected="one image a file",
            fix="save the frame that is meant as PNG",
        )
    return opened


def _header(image: Image.Image) -> Header:
    width, height = image.size
    if image.getexif().get(_ORIENTATION) in _TURNED:
        width, height = height, width
    return Header(str(image.format), height, width, image.mode in ("1", "L", "LA", "I;16", "I"))


def _is_wide(image: Image.Image) -> bool:
    """Whether the file has more than 8 bits a channel."""
    if isinstance(image, TiffImageFile) and max(image.tag_v2.get(_BITS_PER_SAMPLE, (1,))) > 8:
        return True
    return image.mode.startswith(("F", "I")) or ";16" in _raw_mode(image)


def _raw_mode(image: Image.Image) -> str:
    """How Pillow unpacks the pixels of a file that it has not loaded, such as `RGB;16B`."""
    assert isinstance(image, ImageFile.ImageFile), "as it was opened"
    args = image.tile[0].args if image.tile else ""
    return str(args[0] if isinstance(args, tuple) else args)


def _read_wide(image: Image.Image, data: bytes) -> npt.NDArray[np.uint16] | ImageFault:
    """The values of an image of 16 bits that is not loaded yet, [H, W] or [H, W, 3] without
    transparency, as EXIF turns them."""
    if image.mode.startswith("I"):
        values = np.asarray(ImageOps.exif_transpose(image))
        if values.size and (values.min() < 0 or values.max() > ALL_WIDE[1]):
            return ImageFault(
                "the pixels have more than 16 bits",
                found=f"values from {values.min():,} to {values.max():,}",
                expected="0 to 65,535",
                fix="scale them to whole numbers from 0 to 255 and save the image as PNG",
            )
        return values.astype(np.uint16)
    if image.mode.startswith("F"):
        return ImageFault(
            "the pixels are floating-point numbers",
            found=f"{image.format} of mode {image.mode}",
            expected="8 or 16 bits a channel",
            fix="scale them to whole numbers from 0 to 255 and save the image as PNG",
        )
    other = _OTHER_ORDER.get(raw_mode := _raw_mode(image))
    in_planes = isinstance(image, TiffImageFile) and image.tag_v2.get(_PLANAR_CONFIGURATION) == 2
    if other is None or in_planes:
        return ImageFault(
            "colours of 16 bits in a layout that cannot be read",
            found=f"{image.format} of mode {raw_mode}" + ", one plane a channel" * in_planes,
            expected="RGB or RGBA of 16 bits, or any of 8 bits",
            fix="save the image as PNG without transparency",
        )
    low = Image.open(io.BytesIO(data), formats=FORMATS)
    assert isinstance(low, ImageFile.ImageFile), "as it was opened before"
    low.tile = [
        tile._replace(args=(other, *tile.args[1:]) if isinstance(tile.args, tuple) else other)
        for tile in low.tile
    ]
    high_bytes, low_bytes = (
        np.asarray(ImageOps.exif_transpose(half))[..., :3].astype(np.uint16)
        for half in (image, low)
    )
    return high_bytes * 256 + low_bytes


def _narrow(image: Image.Image, wide: npt.NDArray[np.uint16], ends: tuple[int, int]) -> Image.Image:
    """The image with `wide` as 8 bits a channel: 0 to 255 between the ends. Its transparency
    stays."""
    low, high = ends
    scaled = np.clip(wide, low, high).astype(np.uint32) - np.uint32(low)
    scaled = (scaled * 255 + (high - low) // 2) // (high - low)
    narrow = Image.fromarray(scaled.astype(np.uint8))
    if image.mode == "RGBA":
        narrow.putalpha(image.getchannel("A"))
    return narrow


def _flat(image: Image.Image, rule: Rule) -> Image.Image:
    """An image of 8 bits a channel without a palette or transparency, with the channels wanted."""
    if image.has_transparency_data:
        colours = image.convert("RGBA")
        ground = Image.new("RGBA", colours.size, (_WHITE,) * 4)
        image = Image.alpha_composite(ground, colours)
    mode = "RGB" if rule.channels == "rgb" else "L"
    return image if image.mode == mode else image.convert(mode)


def _sized(image: Image.Image, rule: Rule) -> Image.Image:
    height, width = rule.size
    if not height or image.size == (width, height):
        return image
    filtered = _FILTERS[rule.filter]
    match rule.fit:
        case "stretch":
            return image.resize((width, height), filtered)
        case "crop":
            return ImageOps.fit(image, (width, height), filtered)
        case "pad":
            return ImageOps.pad(image, (width, height), filtered, color=0)
        case _:
            assert_never(rule.fit)


def _too_large(found: str, most_pixels: int) -> ImageFault:
    return ImageFault(
        "the image claims more pixels than allowed",
        found=found,
        expected=f"at most {most_pixels:,} (data.decoding.most_pixels)",
        fix="shrink it, or raise data.decoding.most_pixels if the file is trusted",
    )


def _too_many_scans(found: int) -> ImageFault:
    return ImageFault(
        "the JPEG has more scans than any encoder writes",
        found=f"{found:,}, each of which passes over all pixels",
        expected=f"at most {MOST_JPEG_SCANS}",
        fix="save the image again, or remove it",
    )


def _broken(error: Exception) -> ImageFault:
    if isinstance(error, (Image.DecompressionBombError, MemoryError)):
        return ImageFault(
            "the image does not fit into memory", found=str(error)[:200], fix="shrink it"
        )
    return _damaged((str(error).splitlines() or [type(error).__name__])[0][:200])


def _damaged(found: str) -> ImageFault:
    return ImageFault(
        "the image is damaged or cut off",
        found=found,
        expected="a whole image file",
        fix="copy the file again, or remove it",
    )
