"""When memory runs out in an evaluation: fewer rows in each pass, and the same numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import ClassVar, Literal, TypeVar, final

from trainwright.checkpoint.state import Snapshot
from trainwright.core.errors import Mistake, Problem
from trainwright.engine.oom import give_back_memory, is_out_of_memory
from trainwright.tracking.events import Event, Noted

Result = TypeVar("Result")


@final
class AdaptiveEvalBatch:
    """How many rows a forward pass of an evaluation takes; halved when memory runs out, for the
    rest of the run.

    What an evaluation gives is a sum over rows or a list of them, and in evaluation mode no row
    looks at another. So fewer rows in a pass give the same numbers, up to the order in which they
    are added. An evaluation that failed is made again from its beginning.

    Its state is the most rows, so that a resumed run makes the same passes.

    Args:
        policy: whether to halve.
        tell: is told of each halving.
        size: rows of a pass, whatever an evaluation would like to have; 0 leaves it to that.
    """

    on_rollback: ClassVar[Literal["keep"]] = "keep"

    def __init__(
        self,
        policy: Literal["split", "raise"] = "split",
        tell: Callable[[Event], object] = lambda _: None,
        *,
        size: int = 0,
    ) -> None:
        self._size = size
        self._splits = policy == "split"
        self._tell = tell
        self._most_rows = math.inf
        self._taken = 0

    def rows(self, wanted: int) -> int:
        """The rows of a pass that would like to have so many, and at least one."""
        rows = max(1, int(min(self._size or wanted, self._most_rows)))
        self._taken = max(self._taken, rows)
        return rows

    def complete(self, evaluate: Callable[[], Result]) -> Result:
        """What `evaluate` gives; it asks for the rows of its passes, and is called again with fewer
        of them as often as memory runs out.

        Raises:
            Mistake: memory does not suffice for one row, or must not be halved.
        """
        while True:
            self._taken = 0
            try:
                return evaluate()
            except (RuntimeError, MemoryError) as error:
                if not is_out_of_memory(error):
                    raise
                why = str(error).partition("\n")[0] or type(error).__name__
            # Here the error is gone, and with it the frames that held on to the failed pass.
            give_back_memory()
            self._halve(why)

    def snapshot(self) -> Snapshot:
        """The most rows of a pass."""
        return Snapshot(values={"most_rows": self._most_rows})

    def restore(self, snapshot: Snapshot) -> None:
        """Go on with as many."""
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
                f"memory ran out in an evaluation with {rows:,} rows at once: it has at most "
                f"{half:,} from here on, is made again, and gives the same numbers",
                {"rows_before": rows, "rows": half},
            )
        )


def _does_not_suffice(rows: int, why: str) -> Mistake:
    mend = "make the model or its rows smaller"
    if rows > 1:
        mend = "set training.guard.out_of_memory: split"
    return Mistake(
        Problem(
            "memory ran out in an evaluation",
            found=f"{rows:,} row{'' if rows == 1 else 's'} at once: {why}",
            expected="memory for the forward pass of a row",
            fix=f"{mend}; the newest checkpoint is as it was",
        )
    )
