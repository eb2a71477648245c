"""Faults of prepared data."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import assert_never

from trainwright.contract.sections.data import Data, TableData
from trainwright.contract.sections.images import ImageData
from trainwright.contract.sections.tokens import TokenData
from trainwright.data.dispatch import Raw
from trainwright.data.images.raw_images import RawImages
from trainwright.data.quality.content.document_quality import document_faults, document_parts
from trainwright.data.quality.content.image_quality import divided_images, examine_images
from trainwright.data.quality.copies.near_duplicate_images import ImageGroups
from trainwright.data.quality.finding import Finding, Subset
from trainwright.data.quality.read_unchecked import examine_prepared
from trainwright.data.quality.run_checks import find_faults, find_image_faults, unanswered
from trainwright.data.read_table import RawTable
from trainwright.data.text.prepare_text import RawTokens
from trainwright.data.types import Prepared


def prepared_faults(
    section: Data,
    folder: Path,
    raw: Raw,
    prepared: Prepared,
    groups: ImageGroups | None = None,
    most_judged: int = sys.maxsize,
    subset: Subset = "all",
) -> tuple[Finding, ...]:
    """The findings of `data check`, except surrounding blanks, which are already stripped, and
    leaks, which the audit of the split finds. `folder` is the contract's; `groups` are the
    duplicate groups of images, if already computed. Labels of more images or table rows than
    `most_judged` are judged on an even subsample. `subset` selects checks of a table."""
    match section:
        case TableData():
            assert isinstance(raw, RawTable)
            data = examine_prepared(raw, prepared, section)
            look = section.quality.look
            found = find_faults(
                data, section.columns, look, audited=True, most_judged=most_judged, subset=subset
            )
            return unanswered(found, section.split)
        case ImageData():
            assert isinstance(raw, RawImages)
            data = divided_images(examine_images(raw), raw, prepared)
            return find_image_faults(raw, data, groups=groups, most_judged=most_judged)
        case TokenData():
            assert isinstance(raw, RawTokens)
            return document_faults(section, folder, document_parts(raw))
        case _:
            assert_never(section)
