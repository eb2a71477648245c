"""Torch's optimizers without torch's compiler."""

from __future__ import annotations

import inspect
import sys

from torch.optim import Optimizer


def leave_compiler_out() -> None:
    """Let optimizers be made without importing torch's compiler, which takes as long as torch.

    Torch marks `add_param_group`, which every optimizer calls once for each group, as not to be
    compiled, and the mark imports the compiler to do its work at the first call. It keeps what it
    made of the method as `__dynamo_disable` (torch/_compile.py); the method itself stands there
    from now on. Whoever has imported the compiler keeps the marks.
    """
    if "torch._dynamo" not in sys.modules:
        plain = inspect.unwrap(Optimizer.add_param_group)
        vars(plain).setdefault("__dynamo_disable", plain)
