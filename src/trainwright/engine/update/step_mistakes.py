"""Errors of a step."""

from __future__ import annotations

from trainwright.core.errors import Mistake, Problem


def no_targets() -> Mistake:
    """Error for a step whose mean loss is undefined."""
    return Mistake(
        Problem(
            "a step has no targets, so its mean loss is undefined",
            expected="at least one target in the micro-batches of every step",
            fix="drop rows without targets, or use larger steps",
        )
    )


def no_gradient() -> Mistake:
    """Error for a loss that no parameter of the optimizer changes."""
    return Mistake(
        Problem(
            "no gradient reached any parameter of the optimizer",
            expected="a loss that depends on the parameters being trained",
            fix="make the optimizer from the parameters of the model that the objective calls",
        )
    )


def short_loss_sum(dtype: str) -> Mistake:
    """Error for a loss that is summed in 16 bits."""
    return Mistake(
        Problem(
            f"the objective sums the loss in {dtype}, which is too imprecise",
            found=f"a sum in {dtype}",
            expected="a sum in float32 or float64: in bfloat16 1 / targets, and so the gradient, "
            "is off by up to 0.4%",
            fix="compute the loss from model(x).float(), or with a loss of tw; .float() of a loss "
            "that is already summed does not help",
        )
    )


def awaited_rank(why: str) -> Mistake:
    """Error for memory that ran out on a rank for which others wait inside the pass."""
    return Mistake(
        Problem(
            "memory ran out in a pass that several processes make together",
            path="training.batch_size",
            found=why,
            expected="a micro-batch that fits: they cannot repeat a pass with fewer rows",
            fix="write a smaller training.batch_size, and as many more "
            "training.gradient_accumulation_steps",
        )
    )


def no_loss_sum(found: str) -> Mistake:
    """Error for an objective that returns something else."""
    return Mistake(
        Problem(
            "the objective does not return a loss sum and its number of targets",
            found=found,
            expected="tw.LossSum(sum, targets): the loss summed over the targets, and their number",
            fix='return tw.LossSum(loss, len(y)), the loss computed with reduction="sum"',
        )
    )


def wrong_count(counted: int, targets: int) -> Mistake:
    """Error for an objective and a feed that count targets differently."""
    return Mistake(
        Problem(
            "the objective and the feed count targets differently, so the loss would be wrong",
            found=f"the objective counted {counted}, the feed {targets}",
            fix="use the objective's count in the feed: Feed(..., count_targets=...)",
        )
    )
