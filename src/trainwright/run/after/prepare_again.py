"""The data of a finished run, prepared anew."""

from __future__ import annotations

from dataclasses import replace

from trainwright.contract.reading.read_contract import ContractText
from trainwright.core.errors import DataChanged
from trainwright.core.files import damage_in, read_json
from trainwright.run.prepare.prepare_run import make_ready
from trainwright.run.prepare.ready_run import Ready
from trainwright.run.request.resume_request import request_again
from trainwright.run.request.run_request import Request
from trainwright.run.screen import Screen, StageTimes
from trainwright.tracking.run_folder import RunFolder


def prepare_again(folder: RunFolder, screen: Screen, why: str) -> Ready:
    """Data and plan of a run, by the contract as the run was given it. `why` says what other rows
    would do.

    Raises:
        DataChanged: the data is not that of the run. As `make_ready`.
    """
    with damage_in(folder.record):
        version = str(read_json(folder.record)["data_version"])
    ready = make_ready(_request_of(folder), StageTimes(), screen)
    if ready.prepared.version != version:
        raise DataChanged(
            f"the data of run {folder.name} has changed since it was trained. Put the files back, "
            f"or train again: {why}"
        )
    return ready


def _request_of(folder: RunFolder) -> Request:
    """As `request_again`, with the contract as the run was given it: the file may be another by
    now."""
    request = request_again(folder, ())
    text = folder.contract.read_text(encoding="utf-8")
    written = request.contract
    at = written.folder if isinstance(written, ContractText) else written.absolute().parent
    return replace(request, contract=ContractText(text, at))
