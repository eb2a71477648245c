"""What holds for every test. The environment is set before anything imports torch or matplotlib."""

from __future__ import annotations

import importlib.util
import os

from hypothesis import settings

# One thread a worker: results are the same bits on every machine, and two workers share two cores.
os.environ["OMP_NUM_THREADS"] = "1"
os.environ["MPLBACKEND"] = "Agg"

# No test asserts a time, and a run that fails must fail again.
settings.register_profile("project", deadline=None, derandomize=True)
settings.load_profile("project")

SHAPED = ["trainwright.model.network"]
"""The modules whose signatures give the shapes of arrays; in tests every call is checked."""

if importlib.util.find_spec("torch") is not None:
    from jaxtyping import install_import_hook

    install_import_hook(SHAPED, "beartype.beartype")
