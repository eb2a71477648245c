"""`data tokenize`: the tokens of a contract's text as a file."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from trainwright.cli.init_predict import check_folder
from trainwright.cli.output.render import show_json
from trainwright.contract.reading.read_contract import read_contract
from trainwright.core.formatting import many, show_bytes
from trainwright.data.dispatch import modality_of
from trainwright.run.screen import StreamScreen
from trainwright.run.summary import labelled


def write_tokens(contract: Path, overrides: Sequence[str], output: Path, *, as_json: bool) -> None:
    """Write the token file and its manifest, and show what they hold."""
    check_folder(output)
    document = read_contract(contract, overrides)
    section = document.contract.data
    screen = StreamScreen(sys.stderr)
    manifest = modality_of(section.kind).tokenize(
        section,
        document.source.folder,
        output,
        lambda text: screen.say(labelled("tokenize", text)),
    )
    if as_json:
        show_json(manifest)
        return
    vocabulary = manifest["vocabulary"]
    sys.stdout.write(
        f"{output}: {many(manifest['tokens'], 'token')} of {vocabulary['size']:,} different "
        f"{vocabulary['kind']} in {many(manifest['documents'], 'document')}, "
        f"{manifest['dtype']}, {show_bytes(manifest['bytes'])}\n"
    )
