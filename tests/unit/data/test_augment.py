from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from scipy.stats import beta  # noqa: E402

from trainwright.contract.images import Augment  # noqa: E402
from trainwright.data.augment import ImageStore, beta_quantile, moved  # noqa: E402
from trainwright.data.feed import Feed  # noqa: E402
from trainwright.data.pixel_rows import ResidentPixels  # noqa: E402

ROWS = 64
PIXELS = torch.from_numpy(np.random.default_rng(0).integers(1, 255, (ROWS, 2, 6, 5), np.uint8))
LABELS = torch.arange(ROWS)
EVERYTHING = Augment(flip=True, crop=2, cutout=3, mixup=0.4, cutmix=1.0)


def store(section: Augment) -> ImageStore:
    return ImageStore(ResidentPixels(PIXELS), LABELS, section, seed=5)


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
    assert (black.sum(dim=(1, 2, 3)) <= 2 * 9).all()
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
