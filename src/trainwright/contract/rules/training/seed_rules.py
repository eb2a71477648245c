"""Rules on contracts that train several times: with other seeds, or again on more rows."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.contract.document import Contract
from trainwright.contract.sections.data.data import fold_count
from trainwright.contract.sections.training.scheduler import ReduceOnPlateau, Swa
from trainwright.core.errors import Problem

_REFIT, _AVERAGE = "training.refit", "training.average"


def check_seeds(contract: Contract, _written: frozenset[str]) -> Iterator[Problem]:
    """Folds are several splits, and have a spread of their own."""
    if contract.training.seeds > 1 and fold_count(contract.data):
        yield Problem(
            "several seeds are trained on one split, and folds are several",
            path="training.seeds",
            found=f"{contract.training.seeds}, beside data.split.folds",
            expected="one of the two",
            fix="remove training.seeds, or data.split.folds",
        )


def check_refit_rows(contract: Contract, _written: frozenset[str]) -> Iterator[Problem]:
    """There are validation rows of the same files to train on."""
    data = contract.data
    if not contract.training.refit:
        return
    if not data.can_refit:
        yield Problem(
            "models are trained again on a table that is no ranking",
            path=_REFIT,
            found=f"data.kind {data.kind}",
            expected="classification or regression of a table",
            fix="remove training.refit",
        )
    if fold_count(data):
        yield Problem(
            "with folds the run's own model is trained on all rows already",
            path=_REFIT,
            found="true, beside data.split.folds",
            expected="one of the two",
            fix="remove training.refit",
        )
    if data.has_own_validation:
        yield Problem(
            "only validation rows of the training file can join the training rows",
            path=_REFIT,
            found="true, beside data.val_path",
            expected="validation rows that are divided off",
            fix="join the two files and name the part of each row in a column: "
            "data.split: {kind: column, column: NAME}, or remove training.refit",
        )


def check_refit_training(contract: Contract, _written: frozenset[str]) -> Iterator[Problem]:
    """The second training can repeat the first without validation rows."""
    training = contract.training
    if not training.refit:
        return
    if contract.metric.quantiles:
        yield Problem(
            "models of several quantiles end at a round each, and are not trained again",
            path=_REFIT,
            found="true, beside metric.quantiles",
            expected="one of the two",
            fix="remove training.refit",
        )
    if training.seeds > 1:
        yield Problem(
            "models of other seeds are not trained again, and could not be compared",
            path="training.seeds",
            found=f"{training.seeds}, beside training.refit",
            expected="one of the two",
            fix="remove training.seeds, or training.refit",
        )
    may_be_network = contract.model.is_loop_trained or contract.model.is_selection
    if may_be_network and isinstance(training.scheduler, ReduceOnPlateau):
        yield Problem(
            "a learning rate that follows validation rows cannot be repeated without them",
            path="training.scheduler",
            found=f"{training.scheduler.name}, beside training.refit",
            expected="a schedule of steps",
            fix="remove training.scheduler, or training.refit",
        )


def check_refit_average(contract: Contract, _written: frozenset[str]) -> Iterator[Problem]:
    """A mean of the weights at the ends of epochs: with more rows these are at other steps, and a
    training of as many steps averages other weights, or none."""
    average = contract.training.average
    if not (contract.training.refit and isinstance(average, Swa)):
        return
    if average.start_epoch:
        yield Problem(
            "epochs of a second training, which has more rows, end at other steps",
            path=f"{_AVERAGE}.start_epoch",
            found=f"{average.start_epoch}, beside training.refit",
            expected="start_ratio",
            fix=f"remove {_AVERAGE}.start_epoch, or training.refit",
        )
    if average.every_n_steps == "epoch":
        yield Problem(
            "epochs of a second training, which has more rows, end at other steps",
            path=f"{_AVERAGE}.every_n_steps",
            found="epoch, beside training.refit",
            expected="a number of steps",
            fix=f"write {_AVERAGE}.every_n_steps: 1, or remove training.refit",
        )


SEED_RULES = (check_seeds, check_refit_rows, check_refit_training, check_refit_average)
"""All of them, for the list of rules."""
