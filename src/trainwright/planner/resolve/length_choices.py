"""Length of a training in steps or tokens, in place of epochs."""

from __future__ import annotations

import math

from trainwright.contract.document import Contract
from trainwright.contract.sections.section import settled
from trainwright.contract.sections.training.stop import Stop
from trainwright.contract.sections.training.training import Training
from trainwright.data.read_table import DataFacts
from trainwright.planner.estimate import steps_per_epoch
from trainwright.planner.resolve.choice import Choice, Choosing


def has_length(training: Training) -> bool:
    """Does a contract give the length in steps or tokens?"""
    return training.num_steps != "off" or training.num_tokens != "off"


def choose_length(
    contract: Contract, training: Training, facts: DataFacts, rows: int, choosing: Choosing
) -> Training:
    """The limit that ends the training and that the schedule spans, and enough epochs to reach it:
    twice as many as the estimate of the rows says, so that none ends it."""
    stop, steps, tokens = training.stop, training.num_steps, training.num_tokens
    limits: dict[str, int]
    if steps != "off":
        why, limits = "num_steps", {"max_steps": steps}
        epochs = steps / steps_per_epoch(rows, settled(training.effective_batch_size))
    else:
        assert tokens != "off", "asked only of a training with a length"
        why, limits = "num_tokens", {"max_tokens": tokens}
        epochs = tokens / _tokens_of_epoch(contract, facts, rows)
    spans = stop.schedule_spans if isinstance(stop.schedule_spans, int) else "limits"
    values = {**limits, "schedule_spans": spans}
    choosing.made += [
        Choice(f"training.stop.{name}", value, f"what {why} says") for name, value in values.items()
    ]
    enough = 2 * math.ceil(epochs)
    choosing.made.append(Choice("training.num_epochs", enough, f"more than {why} needs"))
    ending: Stop = stop.model_copy(update=values)
    return training.model_copy(update={"stop": ending, "num_epochs": enough})


def _tokens_of_epoch(contract: Contract, facts: DataFacts, rows: int) -> float:
    """Targets of an epoch, as far as they are known; of a padded document all tokens but one."""
    if not contract.data.is_padded:
        return rows * contract.model.context_length
    lengths = [length - 1 for each in facts.documents.values() for length in each]
    longest = contract.model.context_length
    return max(1, sum(min(length, longest) for length in lengths))
