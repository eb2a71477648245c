"""Every way to hear that the machine will be taken away, against a fake of each service."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from metadata import (
    ACTION_PATH,
    AWS_NOTICE,
    EVENTS_PATH,
    PREEMPTED_PATH,
    TOKEN_PATH,
    Metadata,
    azure_event,
    serve_metadata,
)
from trainwright.contract.sections.run_settings import Resume
from trainwright.run.supervise.cloud_notices import Azure, Ec2, GoogleCloud
from trainwright.run.supervise.preemption import NoticeFile, build_notices
from trainwright.testing.notice_conformance import FakeNotices, check_notices


@pytest.fixture
def served() -> Iterator[tuple[Metadata, str]]:
    with serve_metadata() as served:
        yield served


Served = tuple[Metadata, str]


def test_the_fake() -> None:
    fake = FakeNotices()
    check_notices(fake, lambda: setattr(fake, "told", "going"), lambda: setattr(fake, "down", True))


def test_a_file(tmp_path: Path) -> None:
    path = tmp_path / "notice"

    def breaks() -> None:
        path.unlink()
        path.mkdir()

    check_notices(NoticeFile(path), lambda: path.write_text("\x1b[31mx\nmore"), breaks)


def test_a_path_starts_at_the_contract(tmp_path: Path) -> None:
    section = Resume(notice="./notice")
    (tmp_path / "notice").touch()
    assert build_notices(section, tmp_path).look() == f"the notice {tmp_path}/notice"


def test_aws(served: Served) -> None:
    metadata, address = served
    check_notices(Ec2(address), metadata.interrupt, metadata.break_down)
    assert metadata.asked[0] == f"PUT {TOKEN_PATH}"
    assert metadata.tokens == 1


def test_gcp(served: Served) -> None:
    metadata, address = served
    check_notices(GoogleCloud(address), metadata.preempt, metadata.break_down)


def test_azure(served: Served) -> None:
    metadata, address = served
    check_notices(Azure(address), lambda: metadata.schedule(azure_event()), metadata.break_down)


def test_an_old_token_is_replaced(served: Served) -> None:
    metadata, address = served
    source = Ec2(address)
    assert source.look() == ""
    metadata.make_token_old()
    metadata.interrupt()
    assert source.look() == "AWS will terminate this machine at 2026-01-02T03:04:05Z"


def test_events_of_other_machines_and_pauses_are_no_notice(served: Served) -> None:
    metadata, address = served
    metadata.schedule(azure_event("Freeze"), azure_event(machine="vm_2"))
    source = Azure(address)
    assert source.look() == ""
    metadata.schedule(azure_event("Freeze"), azure_event(machine="vm_2"), azure_event("Terminate"))
    assert source.look().startswith("Azure has scheduled Terminate for this machine, Mon")


NONSENSE = ("", "{", "[]", "7", "null", "[" * 1000, '{"action": "stop"}', '{"Events": [1]}')


@pytest.mark.parametrize("text", NONSENSE, ids=range(len(NONSENSE)))
def test_nonsense_is_no_notice(text: str, served: Served) -> None:
    metadata, address = served
    for path in (ACTION_PATH, PREEMPTED_PATH, EVENTS_PATH):
        metadata.answers[path] = text
    for source in (Ec2(address), GoogleCloud(address), Azure(address)):
        with pytest.raises((OSError, ValueError)):
            source.look()


def test_what_is_told_holds_nothing_that_steers_a_terminal(served: Served) -> None:
    metadata, address = served
    metadata.answers[ACTION_PATH] = json.dumps(AWS_NOTICE | {"action": "\x1b[2J\u202e<b>" * 99})
    told = Ec2(address).look()
    assert told.isprintable()
    assert "<" not in told
    assert len(told) < 200


def test_nobody_who_answers_is_no_notice(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{taken.getsockname()[1]}"
        # A proxy would be asked about this machine's own metadata.
        monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
        for source in (Ec2(address), GoogleCloud(address), Azure(address)):
            with pytest.raises(OSError, match="does not answer"):
                source.look()
