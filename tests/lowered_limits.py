"""A small honest file and a limit lowered below it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import final

import pytest

from command import command, inside, tree
from trainwright.contract.document import Contract
from trainwright.contract.reading.read_contract import read_contract

A_THOUSAND_BYTES: Mapping[str, object] = {
    "trainwright.core.limits.EXPANSION_BYTES": 1000,
    "trainwright.data.formats.encodings.memory_bytes": lambda: 0,
}
"""What any file may unpack to, whatever its size."""


@final
@dataclass(frozen=True, slots=True)
class Limited:
    """A contract and its data, which `write` puts into a folder, and the limit that is lowered: a
    constant by its dotted name, or a setting of the contract."""

    write: Callable[[Path], str]
    says: str
    constants: Mapping[str, object] = field(default_factory=dict)
    settings: tuple[str, ...] = ()
    found: str = ""

    def refused(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Contract:
        """The contract, which the command refuses at the lowered limit, writing nothing."""
        contract = folder / "contract.yaml"
        contract.write_text(self.write(folder))
        before = tree(folder)
        # Or the rows of another test's equal file would come from the cache.
        monkeypatch.setenv("TRAINWRIGHT_CACHE", f"{folder}-cache")
        with inside(folder), monkeypatch.context() as patch:
            for name, value in self.constants.items():
                patch.setattr(name, value)
            words = [word for setting in self.settings for word in ("--set", setting)]
            ran = command("check", "contract.yaml", *words)
        assert ran.code == 2, ran.out + ran.err
        assert self.says in ran.err, ran.err
        assert f"found: {self.found}" in ran.err, ran.err
        assert "fix: " in ran.err
        assert tree(folder) == before
        return read_contract(contract).contract
