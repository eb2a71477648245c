"""Learning rates for `auto`."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import assert_never

from trainwright.contract.sections.training import optimizer as contract
from trainwright.core.files import Json
from trainwright.planner.resolve.choice import Chosen

NOTHING_USUAL: Mapping[str, tuple[Json, str]] = MappingProxyType({})


def learning_rates(
    section: contract.AnyOptimizer, usual: Mapping[str, tuple[Json, str]] = NOTHING_USUAL
) -> Chosen:
    """Field -> (value, reason) for each learning rate of the optimizer; `usual` has the rate of
    Adam and AdamW where a family has its own."""
    match section:
        case contract.Sgd():
            rate, reason = 0.1, "the usual start of SGD with momentum on normalised networks"
            if not section.momentum:
                reason = "the usual start of SGD"
        case contract.Adam() | contract.AdamW() | contract.AdamW8bit():
            rate, reason = usual.get("learning_rate", (1e-3, "the usual start of Adam and AdamW"))
        case contract.Adafactor():
            rate, reason = 1e-2, "a hundredth of the weights' own size, as in Adafactor's paper"
        case contract.Lamb():
            rate, reason = 5e-3, "half a percent of each tensor's length a step"
        case contract.Lion():
            rate, reason = 1e-4, "a tenth of AdamW's: each number moves by the whole rate"
        case contract.ScheduleFreeAdamW():
            rate, reason = 2.5e-3, "more than AdamW's, as in the paper: the mean smooths the steps"
        case contract.Muon():
            return _of_muon(section)
        case _:
            assert_never(section)
    return {"learning_rate": (rate, reason)}


def _of_muon(section: contract.Muon) -> Chosen:
    match section.scale:
        case "match_rms_adamw":
            hidden = (1e-3, "updates of hidden matrices are as large as AdamW's")
        case "original":
            hidden = (0.02, "the original rate of Muon for hidden matrices")
        case _:
            assert_never(section.scale)
    rest = (1e-3, "a good start for AdamW, which trains the rest")
    return {"learning_rate": hidden, "adamw_learning_rate": rest}
