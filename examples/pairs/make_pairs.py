"""Draws a shape on each of 120 images, and writes what stands on each."""

from __future__ import annotations

import csv
import random
import shutil
from itertools import product
from pathlib import Path

from PIL import Image, ImageDraw

SIDE = 24
COLOURS = {
    "red": (214, 40, 40),
    "green": (42, 157, 70),
    "blue": (38, 84, 200),
    "yellow": (244, 208, 63),
    "white": (245, 245, 245),
    "black": (25, 25, 25),
}
SHAPES = ("circle", "square", "triangle", "cross")


def draw(shape: str, colour: str, ground: str, place: random.Random) -> Image.Image:
    """A shape of a colour, somewhere near the middle of a ground."""
    image = Image.new("RGB", (SIDE, SIDE), COLOURS[ground])
    pen, fill = ImageDraw.Draw(image), COLOURS[colour]
    half = place.randint(6, 9)
    x, y = (SIDE // 2 + place.randint(-2, 2) for _ in range(2))
    box = (x - half, y - half, x + half, y + half)
    match shape:
        case "circle":
            pen.ellipse(box, fill)
        case "square":
            pen.rectangle(box, fill)
        case "triangle":
            pen.polygon([(x, y - half), (x - half, y + half), (x + half, y + half)], fill)
        case _:
            third = half // 3
            pen.rectangle((x - half, y - third, x + half, y + third), fill)
            pen.rectangle((x - third, y - half, x + third, y + half), fill)
    return grained(image, place)


def grained(image: Image.Image, place: random.Random) -> Image.Image:
    """The image with other grain: two shapes that differ in their colours alone are no copies."""
    pixels = (value + place.randint(-24, 24) for value in image.tobytes())
    return Image.frombytes("RGB", image.size, bytes(min(255, max(0, one)) for one in pixels))


def main() -> None:
    """Write `images/` and `captions.csv` beside this file, the same each time."""
    here = Path(__file__).parent
    shutil.rmtree(here / "images", ignore_errors=True)
    (here / "images").mkdir()
    place = random.Random(0)
    rows = []
    for shape, colour, ground in product(SHAPES, COLOURS, COLOURS):
        if colour != ground:
            name = f"images/{shape}-{colour}-{ground}.png"
            draw(shape, colour, ground, place).save(here / name)
            rows.append((name, f"a {colour} {shape} on {ground}", shape))
    place.shuffle(rows)
    with (here / "captions.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("image", "caption", "shape"))
        writer.writerows(rows)


if __name__ == "__main__":
    main()
