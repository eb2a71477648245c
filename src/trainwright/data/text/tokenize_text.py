"""`data tokenize`: the tokens of a contract's text, written once as a token file with a
manifest."""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Final

from trainwright.contract.sections.data.tokens import TokenData
from trainwright.core.errors import DataMistake, Problem
from trainwright.core.files import (
    Json,
    hash_bytes,
    hash_file,
    storage_errors,
    sync_folder,
    write_json,
)
from trainwright.core.formatting import many
from trainwright.data.base.token_inputs import token_dtype
from trainwright.data.text.prepare_text import RawTokens, read_tokens
from trainwright.data.text.recorded_division import division_json
from trainwright.data.text.token_file import head_of, is_token_file, token_bytes

_BLOCK: Final = 2**24
"""Tokens written at once."""


def tokenize_text(
    section: TokenData, folder: Path, target: Path, tell: Callable[[str], None]
) -> dict[str, Json]:
    """Write the token file and the manifest beside it; the manifest.

    What is read is kept in the cache of the contract, so a process that is killed goes on with the
    finished passes; the file is written under another name and renamed, so it is whole or absent.

    Raises:
        DataMistake: the text cannot be read, or is a token file. StorageFailed: the disk.
    """
    if is_token_file(folder / section.path):
        raise DataMistake(
            Problem(
                "the data is a token file already",
                path="data.path",
                found=section.path,
                expected="a text, a folder of texts or a table with a column of texts",
                fix="train from it, or name the text that it was made of",
            )
        )
    raw = read_tokens(section, folder, tell)
    tell(f"writing {many(len(raw.text.tokens), 'token')} to {target}")
    with storage_errors(f"writing {target}"):
        _write(target, raw, section)
    manifest = _manifest(target, raw, section)
    write_json(manifest_of(target), manifest)
    return manifest


def manifest_of(target: Path) -> Path:
    """Manifest of a token file."""
    return target.with_name(f"{target.name}.json")


def _write(target: Path, raw: RawTokens, section: TokenData) -> None:
    text = raw.text
    aside = target.with_name(f".tmp-{uuid.uuid4().hex[:8]}-{target.name}")
    try:
        with aside.open("wb") as stream:
            division = division_json(raw.sources, section)
            stream.write(head_of(text.vocabulary, text.documents, division))
            for start in range(0, len(text.tokens), _BLOCK):
                some = text.tokens[start : start + _BLOCK]
                stream.write(token_bytes(some, text.vocabulary))
            stream.flush()
            os.fsync(stream.fileno())
        aside.replace(target)
        sync_folder(target.parent)
    except BaseException:
        with contextlib.suppress(OSError):
            aside.unlink(missing_ok=True)
        raise


def _manifest(target: Path, raw: RawTokens, section: TokenData) -> dict[str, Json]:
    vocabulary = raw.text.vocabulary
    return {
        "scheme": 1,
        "file": target.name,
        "sha256": hash_file(target),
        "bytes": target.stat().st_size,
        "tokens": len(raw.text.tokens),
        "documents": len(raw.text.documents),
        "dtype": token_dtype(vocabulary.size),
        "vocabulary": {
            "kind": vocabulary.kind,
            "size": vocabulary.size,
            "sha256": hash_bytes(vocabulary.symbols.encode()),
        },
        **division_json(raw.sources, section),
        "files": [{"path": one.path, "sha256": one.sha256} for one in raw.facts.files],
        "notes": [note for _, note in raw.remarks],
    }
