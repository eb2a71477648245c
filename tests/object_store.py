"""A real server of object storage on this machine, for tests of what lies elsewhere."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import pytest


@contextmanager
def object_store() -> Iterator[dict[str, str]]:
    """What the environment must hold to reach it; the test is skipped where there is none."""
    moto = pytest.importorskip("moto.server")
    pytest.importorskip("s3fs")
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield {
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
    }
    server.stop()


@contextmanager
def bucket(name: str) -> Iterator[str]:
    """A bucket of it, which the environment leads to inside the block."""
    boto3 = pytest.importorskip("boto3")
    with object_store() as settings, pytest.MonkeyPatch.context() as patch:
        for key, value in settings.items():
            patch.setenv(key, value)
        boto3.client("s3").create_bucket(Bucket=name)
        yield name
