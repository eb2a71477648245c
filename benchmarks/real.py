"""Where the real data sets lie: beside the project, as `shared/data`."""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).resolve().parents[2] / "shared" / "data"
