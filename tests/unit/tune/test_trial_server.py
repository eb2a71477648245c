"""What the server that trials are forked from has ready."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytest.importorskip("optuna")

PROGRAM = """
import sys, threading
import trainwright.tune.trial_server
from trainwright.contract.document import Contract
from trainwright.tracking.environment import modules_of_packages

assert Contract.__pydantic_complete__
assert modules_of_packages.cache_info().currsize
assert threading.active_count() == 1
assert "torch" not in sys.modules
"""


def test_it_builds_what_trials_share_without_a_thread_or_torch() -> None:
    subprocess.run([sys.executable, "-c", PROGRAM], check=True, timeout=300)
