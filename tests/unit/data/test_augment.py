from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from PIL import Image, ImageEnhance, ImageOps  # noqa: E402
from scipy.stats import beta  # noqa: E402

from trainwright.contract.sections.data.images import Augment, ColorJitter, Erasing, RandAugment  # noqa: E402
from trainwright.data.base.counter_rng import integers, uniform  # noqa: E402
from trainwright.data.base.inputs import ImageInputs  # noqa: E402
from trainwright.data.loading import randaugment  # noqa: E402
from trainwright.data.loading import randaugment as color_ops  # noqa: E402
from trainwright.data.loading.augment import ImageDataset, beta_quantile, moved  # noqa: E402
from trainwright.data.loading.feed import Feed  # noqa: E402
from trainwright.data.loading.pixel_rows import MappedPixels, ResidentPixels, build_pixels  # noqa: E402

ROWS = 64
PIXELS = torch.from_numpy(np.random.default_rng(0).integers(1, 255, (ROWS, 3, 6, 5), np.uint8))
LABELS = torch.arange(ROWS)
EVERYTHING = Augment(
    flip=True,
    crop=2,
    randaugment=RandAugment(operations=2, magnitude=7.0),
    colors=ColorJitter(brightness=0.4, contrast=0.4, saturation=0.4, hue=0.1),
    cutout=3,
    erase=Erasing(probability=0.5),
    mixup=0.4,
    cutmix=1.0,
)


def store(section: Augment) -> ImageDataset:
    return ImageDataset(ResidentPixels(PIXELS), LABELS, section, seed=5)


def test_without_changes_the_images_are_themselves() -> None:
    pixels, labels = store(Augment()).take(0, np.arange(4))
    assert torch.equal(pixels, PIXELS[:4])
    assert labels.tolist() == [0, 1, 2, 3]


def test_an_image_is_changed_alike_whatever_stands_beside_it() -> None:
    together = store(EVERYTHING).take(2, np.arange(ROWS))
    alone = [store(EVERYTHING).take(2, np.array([row])) for row in (3, 60)]
    for row, one in zip((3, 60), alone, strict=True):
        for whole, part in zip(together, one, strict=True):
            torch.testing.assert_close(whole[row], part[0], rtol=0, atol=0)


def test_epochs_differ_and_come_back() -> None:
    first, second = (store(EVERYTHING).take(epoch, np.arange(ROWS))[0] for epoch in (0, 1))
    assert not torch.equal(first, second)
    assert torch.equal(first, store(EVERYTHING).take(0, np.arange(ROWS))[0])


def test_a_feed_moved_into_an_epoch_gives_what_it_would_have_given() -> None:
    whole, moved_to = (Feed(store(EVERYTHING), 8, 2, seed=1) for _ in range(2))
    steps = [whole.next_step() for _ in range(7)]
    moved_to.seek(steps[4].samples)
    for expected, found in zip(
        steps[5:], (moved_to.next_step(), moved_to.next_step()), strict=True
    ):
        for a, b in zip(expected.micro_batches, found.micro_batches, strict=True):
            assert all(torch.equal(x, y) for x, y in zip(a, b, strict=True))


def test_about_half_of_the_images_are_mirrored() -> None:
    pixels, _ = store(Augment(flip=True)).take(0, np.arange(ROWS))
    kept = (pixels == PIXELS).flatten(1).all(1)
    turned = (pixels == PIXELS.flip(3)).flatten(1).all(1)
    assert (kept ^ turned).all()
    assert 15 < int(turned.sum()) < 49


def test_a_moved_image_is_a_view_of_its_black_frame() -> None:
    out = moved(PIXELS[:2], np.array([2, 0]), np.array([2, 4]), 2)
    assert torch.equal(out[0], PIXELS[0])
    assert torch.equal(out[1, :, 2:, :3], PIXELS[1, :, :4, 2:])
    assert not out[1, :, :2].any()
    assert not out[1, :, :, 3:].any()


def test_cutout_blacks_out_one_rectangle() -> None:
    pixels, _ = store(Augment(cutout=3)).take(0, np.arange(ROWS))
    black = pixels == 0
    assert black.any(dim=(1, 2, 3)).all()
    assert (black.sum(dim=(1, 2, 3)) <= 3 * 9).all()
    assert torch.equal(pixels[~black], PIXELS[~black])


def test_mixup_blends_by_its_share() -> None:
    pixels, labels, others, shares = store(Augment(mixup=0.5)).take(0, np.arange(ROWS))
    share = shares[:, None, None, None]
    expected = share * PIXELS[labels].float() + (1 - share) * PIXELS[others].float()
    torch.testing.assert_close(pixels, expected, rtol=0, atol=1e-3)
    assert 0 < float(shares.min()) < float(shares.max()) <= 1


def test_cutmix_weighs_by_the_area_that_is_left() -> None:
    pixels, labels, others, shares = store(Augment(cutmix=1.0)).take(0, np.arange(ROWS))
    assert pixels.dtype == torch.uint8
    mine = (pixels == PIXELS[labels]).all(1)
    theirs = (pixels == PIXELS[others]).all(1)
    assert (mine | theirs).all()
    certain = labels != others
    left = (~theirs).float().mean(dim=(1, 2))
    assert (shares[certain] >= left[certain] - 1e-6).all()
    assert float((shares - mine.float().mean(dim=(1, 2)))[certain].max()) <= 1e-6


def test_shares_follow_the_beta_distribution() -> None:
    chance = (np.arange(5000) + 0.5) / 5000
    drawn = beta_quantile(0.3, chance)
    for share in (0.05, 0.3, 0.5, 0.9):
        assert (drawn < share).mean() == pytest.approx(beta.cdf(share, 0.3, 0.3), abs=1e-3)


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 2**20),
    epoch=st.integers(0, 1000),
    rows=st.lists(st.integers(0, ROWS - 1), min_size=1, max_size=40),
    operations=st.integers(0, 3),
    size=st.sampled_from([(3, 6, 5), (1, 9, 9), (3, 33, 17)]),
)
def test_what_happens_to_an_image_depends_on_seed_epoch_and_row_alone(
    seed: int, epoch: int, rows: list[int], operations: int, size: tuple[int, int, int]
) -> None:
    """Bit for bit, whatever the batch, its order and its repetitions."""
    section = EVERYTHING.model_copy(
        update={"randaugment": RandAugment(operations=operations, magnitude=9.0)}
    )
    pixels = torch.from_numpy(np.random.default_rng(seed).integers(0, 256, (ROWS, *size), np.uint8))
    made = ImageDataset(ResidentPixels(pixels), LABELS, section, seed)
    together = made.take(epoch, np.array(rows))
    whole = made.take(epoch, np.arange(ROWS))
    for part, every in zip(together, whole, strict=True):
        assert torch.equal(part, every[rows])


def test_images_that_stay_in_their_file_are_changed_alike(tmp_path: Path) -> None:
    PIXELS.numpy().tofile(tmp_path / "pixels")
    mapped = np.memmap(tmp_path / "pixels", np.uint8, "r", shape=tuple(PIXELS.shape))
    order = np.random.default_rng(1).permutation(ROWS)
    images = ImageInputs(mapped, order)
    device = torch.device("cpu")
    kinds = [build_pixels(images, device, most) for most in (0, 2**30)]
    assert [type(kind) for kind in kinds] == [MappedPixels, ResidentPixels]
    labels = LABELS[torch.from_numpy(order)]
    first, second = (
        ImageDataset(kind, labels, EVERYTHING, 3).take(4, np.arange(20)) for kind in kinds
    )
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


FULL = np.ones(1)
PICTURE = torch.from_numpy(np.random.default_rng(3).integers(0, 256, (1, 3, 9, 11), np.uint8))


def as_pillow(pixels: torch.Tensor) -> Image.Image:
    return Image.fromarray(pixels[0].permute(1, 2, 0).numpy())


def from_pillow(image: Image.Image) -> torch.Tensor:
    return torch.from_numpy(np.asarray(image).copy()).permute(2, 0, 1)[None]


@pytest.mark.parametrize("strength", [0.0, 0.3, 1.0, -0.7])
@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (randaugment.change_brightness, ImageEnhance.Brightness),
        (randaugment.change_contrast, ImageEnhance.Contrast),
        (randaugment.color, ImageEnhance.Color),
        (randaugment.sharpness, ImageEnhance.Sharpness),
    ],
)
def test_factors_do_what_pillow_does(
    ours: randaugment.Operation, theirs: type[ImageEnhance._Enhance], strength: float
) -> None:
    expected = from_pillow(theirs(as_pillow(PICTURE)).enhance(1 + 0.9 * strength)).int()
    found = ours(PICTURE, FULL * strength).int()
    assert int((found - expected).abs().max()) <= 2


def test_tables_of_values_do_what_pillow_does() -> None:
    image = as_pillow(PICTURE)
    for strength in (0.25, 0.5, 1.0):
        bits = 8 - round(4 * strength)
        assert torch.equal(
            randaugment.posterize(PICTURE, FULL * strength),
            from_pillow(ImageOps.posterize(image, bits)),
        )
        assert torch.equal(
            randaugment.solarize(PICTURE, FULL * strength),
            from_pillow(ImageOps.solarize(image, round(256 * (1 - strength)))),
        )
    assert torch.equal(randaugment.equalize(PICTURE, FULL), from_pillow(ImageOps.equalize(image)))
    large = torch.from_numpy(
        np.random.default_rng(4).normal(90, 20, (1, 3, 40, 40)).astype(np.uint8)
    )
    assert torch.equal(
        randaugment.equalize(large, FULL), from_pillow(ImageOps.equalize(as_pillow(large)))
    )
    stretched = from_pillow(ImageOps.autocontrast(as_pillow(large))).int()
    assert int((randaugment.auto_contrast(large, FULL).int() - stretched).abs().max()) <= 1


def test_a_move_shifts_and_a_turn_turns() -> None:
    moved_by = round(0.5 * 150 / 331 * 11)
    right = randaugment.translate_x(PICTURE, FULL * 0.5)
    assert torch.equal(right[..., moved_by:], PICTURE[..., :-moved_by])
    assert not right[..., :moved_by].any()
    quarter = randaugment.mapped(PICTURE[..., :9], np.array([[0.0, 1.0, -1.0, 0.0]]))
    assert torch.equal(quarter, PICTURE[..., :9].rot90(-1, (2, 3))) or torch.equal(
        quarter, PICTURE[..., :9].rot90(1, (2, 3))
    )
    assert torch.equal(randaugment.rotate(PICTURE, FULL * 0), PICTURE)
    assert not torch.equal(randaugment.rotate(PICTURE, FULL), PICTURE)


def test_hue_turns_colours_and_keeps_grey() -> None:
    red = torch.tensor([200, 20, 20], dtype=torch.uint8)[None, :, None, None]
    third = color_ops.hue(red, np.array([1 / 3]))[0, :, 0, 0]
    assert int(third.argmax()) != 0
    assert torch.equal(color_ops.hue(red, np.array([0.0])), red)
    grey = torch.full((1, 3, 2, 2), 90, dtype=torch.uint8)
    assert int((color_ops.hue(grey, np.array([0.4])).int() - 90).abs().max()) <= 1


def test_erasing_covers_the_shares_that_it_should() -> None:
    pixels = torch.zeros((2000, 1, 32, 32), dtype=torch.uint8)
    section = Augment(erase=Erasing(probability=0.5, smallest=0.1, largest=0.2))
    out, _ = ImageDataset(ResidentPixels(pixels), torch.zeros(2000), section, 0).take(
        0, np.arange(2000)
    )
    share = (out != 0).float().mean(dim=(1, 2, 3))
    assert 0.45 < float((share > 0).float().mean()) < 0.55
    assert float(share.max()) < 0.22


@pytest.mark.parametrize("probability", [0.0001, 0.4, 1.0])
def test_erased_bytes_are_those_of_the_whole_image_cut_to_the_box(probability: float) -> None:
    """Written out: each pixel of an image has a byte of its own, of which the box shows some."""
    section = Erasing(probability=probability)
    rows, epoch, seed = np.array([7, 3, 60, 3, 12, 40]), 4, 5
    size = PIXELS[0].numel()
    chosen = uniform(seed, "erase", epoch, rows) < probability
    area = 0.02 + 0.31 * uniform(seed, "erase area", epoch, rows)
    low, high = np.log(0.3), np.log(1 / 0.3)
    shape = np.exp(low + (high - low) * uniform(seed, "erase shape", epoch, rows))
    heights = np.where(chosen, np.round(np.sqrt(area * 30 * shape)), 0).astype(int)
    widths = np.where(chosen, np.round(np.sqrt(area * 30 / shape)), 0).astype(int)
    top = integers(6, seed, "erase y", epoch, rows) - heights // 2
    left = integers(5, seed, "erase x", epoch, rows) - widths // 2
    places = rows[:, None] * size + np.arange(size)
    noise = integers(256, seed, "erase bytes", epoch, places.ravel()).reshape(len(rows), 3, 6, 5)
    expected = PIXELS[rows].numpy().copy()
    for one in range(len(rows)):
        for y in range(max(0, top[one]), min(6, top[one] + heights[one])):
            for x in range(max(0, left[one]), min(5, left[one] + widths[one])):
                expected[one, :, y, x] = noise[one, :, y, x]
    found, _ = store(Augment(erase=section)).take(epoch, rows)
    np.testing.assert_array_equal(found.numpy(), expected)
    assert (expected != PIXELS[rows].numpy()).any() == bool(chosen.any())


def test_every_operation_is_drawn_about_as_often() -> None:
    codes = integers(len(randaugment.OPERATIONS), 0, "operation 0", 0, np.arange(14_000))
    assert np.abs(np.bincount(codes, minlength=14) / 1000 - 1).max() < 0.15
