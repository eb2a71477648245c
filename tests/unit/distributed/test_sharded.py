"""Models whose parameters are sharded over two processes."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import distributed  # noqa: E402

pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(not distributed.is_available(), reason="torch without distributed"),
]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    from sharded_ranks import measure_all

    return measure_all(tmp_path_factory.mktemp("ranks"))


def test_layers_of_one_shape_are_not_tied(found: list[dict[str, Any]]) -> None:
    names = sorted(f"{layer}.{name}" for layer in range(3) for name in ("weight", "bias"))
    for one in found:
        assert one["tensors"] == names
        assert one["tied"] == {}


def test_the_gradient_norm_is_that_of_all_shards(found: list[dict[str, Any]]) -> None:
    from sharded_ranks import RANKS, ROWS, gradients_of, model

    whole = model()
    # FSDP takes the mean over the ranks.
    (sum(whole(rows).square().sum() for rows in ROWS) / RANKS).backward()
    norm = float(torch.nn.utils.get_total_norm(gradients_of(whole)))
    assert [one["norm"] for one in found] == pytest.approx([norm] * RANKS, rel=1e-6)
    own = [one["with_one_of_its_own"] for one in found]
    assert own == pytest.approx([(norm**2 + 9) ** 0.5] * RANKS, rel=1e-6)


def test_every_rank_sees_that_a_number_of_one_shard_was_clipped(
    found: list[dict[str, Any]],
) -> None:
    assert [one["clipped"] for one in found] == [1.0, 1.0]


def test_no_rank_keeps_the_whole_weights(found: list[dict[str, Any]]) -> None:
    assert [one["kept"] for one in found] == [0, 0]
