"""Sinks: a process each that reads a run folder and sends it to a tracker."""

from __future__ import annotations

from collections.abc import Callable

Say = Callable[[str, str], None]
"""Says a text under a label to the user."""
