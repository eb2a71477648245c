"""An MLflow server in an environment of its own (`make services`)."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_START_SECONDS = 300
MLFLOW = Path(os.environ.get("TRAINWRIGHT_MLFLOW", ROOT / ".venv-mlflow" / "bin" / "mlflow"))


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@dataclass
class MlflowServer:
    """A server on a store, which can be killed and started again at the same address."""

    store: str
    folder: Path
    port: int
    process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        with (self.folder / "server.log").open("ab") as log:
            self.process = subprocess.Popen(
                [
                    "nice",
                    "-n19",
                    *(str(MLFLOW), "server", "--host", "127.0.0.1", "--port", str(self.port)),
                    *("--workers", "1", "--backend-store-uri", self.store),
                    *("--artifacts-destination", str(self.folder / "artifacts")),
                ],
                stdout=log,
                stderr=log,
                start_new_session=True,
                env={**os.environ, "MLFLOW_DISABLE_TELEMETRY": "true", "PYTHONPATH": ""},
            )
        deadline = time.monotonic() + _START_SECONDS
        while time.monotonic() < deadline and self.process.poll() is None:
            with suppress(OSError), urllib.request.urlopen(f"{self.address}/health", timeout=2):
                return
            time.sleep(0.2)
        raise AssertionError((self.folder / "server.log").read_text()[-2000:])

    def kill(self) -> None:
        if self.process is not None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            self.process = None


@contextmanager
def mlflow_server(store: str, folder: Path) -> Iterator[MlflowServer]:
    server = MlflowServer(store, folder, free_port())
    server.start()
    try:
        yield server
    finally:
        server.kill()
