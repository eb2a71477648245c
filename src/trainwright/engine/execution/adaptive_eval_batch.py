"""Evaluation batch size that adapts to out-of-memory errors."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import ClassVar, Literal, TypeVar, final

import torch
from torch import Tensor

from trainwright.checkpoint.state import Snapshot
from trainwright.core.errors import Mistake, Problem
from trainwright.distributed.strategy import SingleProcess, Strategy
from trainwright.engine.execution.oom import give_back_memory, is_out_of_memory
from trainwright.tracking.events import Event, Noted

Result = TypeVar("Result")
Portion = TypeVar("Portion")

_FAILED = -1


def _untold(_event: Event) -> None:
    """A notice that is for no one; unlike a lambda it can be pickled, in a loaded predictor."""


@final
class AdaptiveEvalBatch:
    """Rows per forward pass of an evaluation, halved for the rest of the run when memory runs out.

    An evaluation returns a sum over rows or a list of rows, and in evaluation mode rows do not
    interact. A smaller batch therefore gives the same numbers up to the order of summation. A
    failed evaluation is repeated from its start, by all ranks that share it.

    The state is the batch limit, so a resumed run makes the same passes.

    Args:
        policy: whether to halve.
        tell: receives a notice of each halving.
        size: rows per pass, overriding what the evaluation asks for; 0 keeps that.
    """

    on_rollback: ClassVar[Literal["keep"]] = "keep"

    def __init__(
        self,
        policy: Literal["split", "raise"] = "split",
        tell: Callable[[Event], object] = _untold,
        *,
        size: int = 0,
    ) -> None:
        self._size = size
        self._splits = policy == "split"
        self._tell = tell
        self._most_rows = math.inf
        self._taken = 0
        self._strategy: Strategy = SingleProcess()

    @contextmanager
    def share_among(self, strategy: Strategy) -> Iterator[None]:
        """The ranks divide the evaluations inside the block, which all of them make."""
        self._strategy = strategy
        try:
            yield
        finally:
            self._strategy = SingleProcess()

    def rows(self, wanted: int) -> int:
        """Rows per pass for an evaluation that asks for `wanted`; at least one."""
        rows = max(1, int(min(self._size or wanted, self._most_rows)))
        self._taken = max(self._taken, rows)
        return rows

    def complete(self, evaluate: Callable[[], Result]) -> Result:
        """Run `evaluate`, halving the batch limit and repeating it whenever memory runs out.

        Raises:
            Mistake: memory does not suffice for one row, or halving is disabled.
        """
        while True:
            self._taken = 0
            try:
                return evaluate()
            except (RuntimeError, MemoryError) as error:
                if not is_out_of_memory(error):
                    raise
                why = str(error).partition("\n")[0] or type(error).__name__
            # The error has been released by now, and with it the frames that kept the failed pass
            # alive.
            give_back_memory()
            self._halve(why)

    def score_each(self, portions: Sequence[Portion], score: Callable[[Portion], Tensor]) -> Tensor:
        """What `score` returns for each portion, [n, ...] on a CPU, concatenated in their order;
        inside `complete`. Of several ranks each scores some portions, and all get the result.

        Raises:
            MemoryError: memory ran out on another rank.
        """
        strategy, ranks = self._strategy, self._strategy.world_size
        if ranks == 1:
            return torch.cat([score(portion) for portion in portions])
        own = portions[strategy.rank :: ranks]
        # As many passes on each rank: a rank may need the others for its own.
        missing = -(-len(portions) // ranks) - len(own)
        try:
            scores = [score(portion) for portion in own]
            scores += [score(portions[0])[:0] for _ in range(missing)]
        except (RuntimeError, MemoryError) as error:
            if is_out_of_memory(error):
                strategy.gather(torch.tensor([_FAILED], device=strategy.device))
            raise
        sizes = torch.tensor([len(one) for one in scores], device=strategy.device)
        of_all = strategy.gather(sizes).tolist()
        if _FAILED in of_all:
            raise MemoryError("memory ran out on another rank")
        rows = strategy.gather(torch.cat(scores).to(strategy.device)).cpu()
        blocks = torch.split(rows, of_all)
        return torch.cat(
            [block for at in range(len(scores)) for block in blocks[at :: len(scores)]]
        )

    def snapshot(self) -> Snapshot:
        """Batch limit."""
        return Snapshot(values={"most_rows": self._most_rows})

    def restore(self, snapshot: Snapshot) -> None:
        """Restore the batch limit."""
        self._most_rows = float(snapshot.values["most_rows"])

    def _halve(self, why: str) -> None:
        rows = self._taken
        if rows < 2 or not self._splits:
            raise _does_not_suffice(rows, why)
        half = -(-rows // 2)
        self._most_rows = float(half)
        self._tell(
            Noted(
                "out_of_memory_in_evaluation",
                f"memory ran out in an evaluation with {rows:,} rows per batch: it is repeated "
                f"with at most {half:,}, which gives the same numbers",
                {"rows_before": rows, "rows": half},
            )
        )


def _does_not_suffice(rows: int, why: str) -> Mistake:
    mend = "use a smaller model or smaller rows"
    if rows > 1:
        mend = "set training.guard.out_of_memory: split"
    return Mistake(
        Problem(
            "memory ran out in an evaluation",
            found=f"{rows:,} row{'' if rows == 1 else 's'} per batch: {why}",
            expected="memory for the forward pass of one row",
            fix=f"{mend}; the newest checkpoint is unchanged",
        )
    )
