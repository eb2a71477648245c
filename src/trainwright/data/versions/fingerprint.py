"""Data version: one hash of all data that a run's numbers depend on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from trainwright.contract.sections.data.table_data import TableData
from trainwright.core.hashing import hash_bytes, hash_value
from trainwright.data.base.applied_actions import AppliedAction
from trainwright.data.base.table import Integers, PartName
from trainwright.data.columns.target_kind import Target
from trainwright.data.encoders.encoding import FrameEncoding
from trainwright.data.read_table import RawTable

_SCHEME = 1


def data_version(
    raw: RawTable,
    section: TableData,
    rows: Mapping[PartName, Integers],
    features: FrameEncoding,
    target: Target,
    done: Sequence[AppliedAction] = (),
) -> str:
    """SHA-256 over the content of the files, the columns, the cleaning, the split, the fitted
    features and what was done to the rows. Paths are excluded: a renamed file is the same data."""
    version = hash_value(
        {
            "scheme": _SCHEME,
            "files": [file.sha256 for file in raw.facts.files],
            "columns": [column.to_json() for column in raw.columns],
            "cleaning": raw.cleaning.to_json(),
            "missing_target": section.missing_target,
            "split": {
                part: hash_bytes(r.astype("<i8", copy=False).data) for part, r in rows.items()
            },
            "features": features.identity(),
            "target": target.identity(),
        }
    )
    if not done:
        return version
    return hash_value({"rows": version, "done": [one.to_json() for one in done]})
