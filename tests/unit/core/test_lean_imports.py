"""The libraries of trees import no package that only their wrappers need."""

from __future__ import annotations

import subprocess
import sys

import pytest

from deadlines import within

PROGRAM = """
import sys
from trainwright.core.lean_imports import import_lean
from trainwright.core.process import code_allowed

import_lean()
with code_allowed({allowed}):
    import {library}
print("sklearn" in sys.modules)
import sklearn.base
import {library}.sklearn
"""


@pytest.mark.parametrize("library", ["lightgbm", "xgboost"])
def test_wrappers_are_not_imported_unless_code_of_the_user_may_need_them(library: str) -> None:
    printed = {}
    for allowed in (False, True):
        program = PROGRAM.format(library=library, allowed=allowed)
        done = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, timeout=within(60)
        )
        assert done.returncode == 0, done.stderr
        printed[allowed] = done.stdout.strip()
    assert printed == {False: "False", True: "True"}
