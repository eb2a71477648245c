"""Direct preference optimisation: losses of pairs of answers (Rafailov et al. 2023,
arXiv:2305.18290). A pair is one target."""

from __future__ import annotations

from typing import Literal, final

from torch import Tensor, nn
from torch.nn import functional

from trainwright.data.loading.batch import Batch
from trainwright.data.loading.document_dataset import NO_TARGET
from trainwright.model.model_call import call_model
from trainwright.objective.losses import LossSum, TargetLoss, in_fp32


@final
class DpoLoss:
    """Loss of margins [B], the reward of the chosen answer minus that of the rejected one: -log
    sigmoid(margin) (equation 7), or of `ipo` (margin / beta - 1 / (2 beta))^2 (Azar et al. 2023,
    arXiv:2310.12036, equation 17, with tau = beta). What margins are compared with is no number."""

    def __init__(self, beta: float, form: Literal["sigmoid", "ipo"]) -> None:
        self._beta = beta
        self._form = form

    def rows(self, outputs: Tensor, target: Tensor) -> Tensor:  # noqa: ARG002
        """Loss of each pair [B]."""
        if self._form == "sigmoid":
            return functional.softplus(-outputs)
        return (outputs / self._beta - 1 / (2 * self._beta)).square()

    def total(self, outputs: Tensor, target: Tensor) -> LossSum:
        """Summed loss and the number of pairs."""
        return LossSum(self.rows(outputs, target).sum(), len(outputs))


@final
class ByPair:
    """Loss of micro-batches of pairs: `tokens` and `target` [B, 2, W], `reference` and `scale` [B,
    2]. Both answers are one batch of the model."""

    def __init__(self, loss: TargetLoss) -> None:
        self._loss = loss

    def __call__(self, model: nn.Module, batch: Batch) -> LossSum:
        """Summed loss of a micro-batch."""
        target = batch["target"].flatten(0, 1)
        logits = call_model(model, ("tokens",), (batch["tokens"].flatten(0, 1),))
        found = answer_log_probabilities(logits, target).view(-1, 2)
        rewards = batch["scale"] * (found - batch["reference"])
        return self._loss.total(rewards[:, 0] - rewards[:, 1], target)


def answer_log_probabilities(logits: Tensor, target: Tensor) -> Tensor:
    """Sum over each row [B] of log softmax(logits [B, L, V])[target [B, L]], without the places
    whose target is `NO_TARGET`."""
    each = functional.cross_entropy(
        in_fp32(logits).flatten(0, 1),
        target.flatten(),
        ignore_index=NO_TARGET,
        reduction="none",
    )
    return -each.view(target.shape).sum(dim=1)
