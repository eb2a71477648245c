"""Rules on preferences, their loss and their metrics."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from trainwright.contract.document import Contract
from trainwright.contract.sections.metric import METRICS
from trainwright.contract.sections.training.objective import AutoLoss, Dpo
from trainwright.core.errors import Problem

if TYPE_CHECKING:
    from trainwright.contract.sections.data.chats import PreferenceData


def has_base(
    contract: Contract, _data: PreferenceData, _written: frozenset[str]
) -> Iterator[Problem]:
    """Preferences are measured against the model that the training starts from."""
    if not contract.model.has_base:
        yield Problem(
            "preferences are learned from a base, which knows how to answer",
            path="model.architecture",
            found="a model of random weights",
            expected="a folder or a model of the hub",
            fix="fine-tune a model on chats, export it by trainwright weights export RUN --to "
            "huggingface -o base, and name the folder in model.architecture",
        )


def pairs_have_dpo(contract: Contract, _written: frozenset[str]) -> Iterator[Problem]:
    """Pairs of answers have a loss of their own, and it has no other data."""
    loss, is_paired = contract.training.loss, contract.data.is_paired
    if isinstance(loss, AutoLoss) or isinstance(loss, Dpo) == is_paired:
        return
    yield Problem(
        f"{loss.name} is no loss of preferences" if is_paired else "dpo is a loss of preferences",
        path="training.loss.name",
        found=loss.name,
        expected="dpo" if is_paired else "data.kind: preferences beside it",
        fix="remove training.loss",
    )


def pairs_have_metrics(contract: Contract, _written: frozenset[str]) -> Iterator[Problem]:
    """Metrics of pairs are of preferences, those of tokens of texts."""
    named = [("metric.name", contract.metric.name)]
    named += [(f"slices.{at}.metric", one.metric) for at, one in enumerate(contract.slices)]
    stopping = contract.training.early_stopping
    if stopping != "off":
        watched = stopping.metric.removeprefix("val_")
        named.append(("training.early_stopping.metric", watched))
    unfit = "tokens" if contract.data.is_paired else "pairs"
    own = "pairs" if contract.data.is_paired else "tokens"
    fitting = [name for name, fact in METRICS.items() if fact.of == own]
    for path, name in named:
        if (
            name in METRICS
            and METRICS[name].of == unfit
            and contract.data.possible_tasks == ("generation",)
        ):
            prefix = "val_" if path.startswith("training.") else ""
            yield Problem(
                f"{name} is no metric of data of kind {contract.data.kind}",
                path=path,
                found=prefix + name,
                expected=f"one of: {', '.join(prefix + one for one in fitting)}",
                fix=f"change it to {prefix}{fitting[0]}",
            )


PREFERENCE_RULES = (has_base,)
"""Those of the data, for the list of rules."""
