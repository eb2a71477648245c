"""Hidden states that a teacher has of the training rows (`training.teacher.hidden`)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import polars as pl

from trainwright.contract.sections.model import kinds_with
from trainwright.contract.sections.model.traits import ModelSection
from trainwright.core.errors import ContractMistake, Problem
from trainwright.data.base.inputs import Bytes
from trainwright.data.types import Prepared
from trainwright.model.families import network_family
from trainwright.model.input_shape import shape_of
from trainwright.predictor.input_rows import GivenRows
from trainwright.predictor.predictor import Predictor

_PATH = "training.teacher.hidden"
_FIX = "remove training.teacher.hidden, or name another kind of network"


def check_states(teacher: Predictor, section: ModelSection, prepared: Prepared) -> None:
    """Refuse a teacher or a student whose head does not read one vector of a row.

    Raises:
        ContractMistake: it does not.
    """
    # Imported here: few teachers are networks.
    import torch

    from trainwright.predictor.network_scorer import NetworkScorer

    scorer, head = teacher.scorer, None
    if isinstance(scorer, NetworkScorer):
        head = scorer.head
    if head is None:
        raise _without("the teacher", scorer.kind)
    family = network_family(section)
    with torch.random.fork_rng(devices=[]), torch.device("meta"):
        network = family.build_empty(section, shape_of(prepared))
    if family.head(network) is None:
        raise _without("the model", section.kind)


def states_of_rows(
    teacher: Predictor, rows: Iterator[pl.DataFrame | Bytes]
) -> npt.NDArray[np.float32]:
    """Its states of rows, [N, D]."""
    from trainwright.predictor.network_scorer import NetworkScorer

    scorer = teacher.scorer
    assert isinstance(scorer, NetworkScorer), "it was checked"
    blocks = [scorer.hidden_states(teacher.features.read_new(GivenRows(one))) for one in rows]
    states = np.concatenate(blocks)
    assert bool(np.isfinite(states).all()), "the states of a network are finite"
    return states


def _without(whose: str, kind: str) -> ContractMistake:
    able = ", ".join(kinds_with(lambda one: one.has_row_state))
    return ContractMistake(
        Problem(
            f"{whose} has no hidden state of a row",
            path=_PATH,
            found=f"a model of kind {kind}",
            expected=f"a network whose head reads one vector of a row: {able}",
            fix=_FIX,
        )
    )
