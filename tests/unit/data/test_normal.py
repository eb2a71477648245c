"""Places on the normal distribution, held against scipy's."""

from __future__ import annotations

import numpy as np
from scipy.special import ndtri

from trainwright.data.encoders.scaling import normal_places

LEAST_SHARE = 1e-14


def test_places_are_those_of_scipy() -> None:
    draw = np.random.default_rng(0)
    tails = np.exp(draw.uniform(np.log(LEAST_SHARE), 0, 300_000))
    edges = [LEAST_SHARE, 0.5, np.exp(-2), 1 - np.exp(-2), 1 - LEAST_SHARE]
    shares = np.concatenate([tails, 1 - tails[tails > 1e-12], draw.random(300_000), edges])
    shares = shares[(shares >= LEAST_SHARE) & (shares <= 1 - LEAST_SHARE)]
    found, known = normal_places(shares), ndtri(shares)
    assert (np.abs(found - known) <= 8 * np.spacing(np.abs(known))).all()
    assert (found.astype(np.float32) == known.astype(np.float32)).all()


def test_missing_stays_missing_and_columns_may_lie_apart() -> None:
    places = normal_places(np.array([[0.5, np.nan, 0.975, 0.025], [0.1] * 4]).T[:, 0])
    assert places[0] == 0
    assert np.isnan(places[1])
    assert np.allclose(places[2:], [1.959963984540054, -1.959963984540054], rtol=1e-15)
