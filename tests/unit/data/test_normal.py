"""Places on the normal distribution, held against scipy's."""

from __future__ import annotations

import numpy as np
from scipy.special import ndtri

from trainwright.data.encoders.normal_quantiles import LEAST_SHARE, normal_places


def test_places_are_those_of_scipy() -> None:
    draw = np.random.default_rng(0)
    tails = np.exp(draw.uniform(np.log(LEAST_SHARE), 0, 300_000))
    edges = [LEAST_SHARE, 0.5, np.exp(-2), 1 - np.exp(-2), 1 - LEAST_SHARE]
    shares = np.concatenate([tails, 1 - tails[tails > 1e-12], draw.random(300_000), edges])
    shares = shares[(shares >= LEAST_SHARE) & (shares <= 1 - LEAST_SHARE)]
    found, known = normal_places(shares), ndtri(shares)
    assert (np.abs(found - known) <= 8 * np.spacing(np.abs(known))).all()
    assert (found == known).mean() > 0.9
    assert (found.astype(np.float32) == known.astype(np.float32)).mean() > 0.999999


def test_missing_stays_missing_and_shapes_stay() -> None:
    places = normal_places(np.array([[0.5, np.nan], [0.975, 0.025]]))
    assert places[0, 0] == 0
    assert np.isnan(places[0, 1])
    assert np.allclose(places[1], [1.959963984540054, -1.959963984540054], rtol=1e-15)
