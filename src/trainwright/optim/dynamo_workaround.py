"""Torch's optimizers without importing torch's compiler."""

from __future__ import annotations

import inspect
import sys

from torch.optim import Optimizer


def leave_compiler_out() -> None:
    """Construct optimizers without importing torch's compiler, which takes as long as torch itself.

    Torch decorates `add_param_group`, which every optimizer calls once per group, to disable
    compilation, and at its first call the decorator imports the compiler. It caches the wrapped
    method as `__dynamo_disable` (torch/_compile.py); this puts the method itself there. If the
    compiler is already imported, nothing is changed.
    """
    if "torch._dynamo" not in sys.modules:
        plain = inspect.unwrap(Optimizer.add_param_group)
        vars(plain).setdefault("__dynamo_disable", plain)
