"""Real servers on free local ports, for benchmarks and tests.

Every server is killed by its process id, by the `with` block or fixture that started it. The one
place that waits for a server is `wait_until`.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

HOST = "127.0.0.1"
READY_S = 60.0  # seconds a server may take to start on a loaded machine
POLL_S = 0.02
SERVER_FOLDERS = ("/usr/sbin", "/usr/local/bin")  # where only root's PATH may look


def free_port() -> int:
    """A port that nobody listened on a moment ago."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port


def resident_mb(pid: int) -> float:
    """Resident memory of a process in MiB, from Linux's /proc."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


class MissingServer(Exception):
    """A program is not installed; the message names the Debian package that brings it."""

    def __init__(self, what: str, package: str) -> None:
        super().__init__(f"{what} is not installed; on Debian: apt-get install {package}")


def binary(*names: str, folders: Sequence[str] = SERVER_FOLDERS, package: str = "") -> str:
    """The path of the first of `names` that is installed, on PATH or in `folders`.

    Debian's name comes first; it is the package's as well unless `package` says otherwise.
    Raises MissingServer.
    """
    for name in names:
        path = shutil.which(name) or shutil.which(name, path=os.pathsep.join(folders))
        if path is not None:
            return path
    raise MissingServer(" or ".join(names), package or names[0])


def wait_until(
    ready: Callable[[], bool],
    *,
    what: str,
    process: subprocess.Popen[bytes] | None = None,
    within_s: float = READY_S,
) -> None:
    """Polls `ready` until it holds. Raises RuntimeError when it does not in time, or as soon as
    the process it speaks of has ended."""
    deadline = time.monotonic() + within_s
    while not ready():
        if time.monotonic() > deadline:
            raise RuntimeError(f"{what}: not ready within {within_s:g} s")
        if process is None:
            time.sleep(POLL_S)
            continue
        with contextlib.suppress(subprocess.TimeoutExpired):
            code = process.wait(timeout=POLL_S)
            raise RuntimeError(f"{what}: ended with code {code} before it was ready")


def answers_ok(url: str) -> bool:
    """Whether a GET of `url` is answered with 200."""
    try:
        with urllib.request.urlopen(url, timeout=5) as response:  # noqa: S310 - our own local URL
            return bool(response.status == 200)
    except (urllib.error.URLError, OSError):
        return False


class Server:
    """A child process that serves on `port`; the port stays the same over restarts.

    `folder` takes its files and its log. A subclass gives `argv`, and `ready_path` when it speaks
    HTTP, else `is_ready`.
    """

    name = "server"
    ready_path = "/"

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"

    @property
    def log(self) -> Path:
        return self.folder / f"{self.name}.log"

    def argv(self) -> list[str]:
        raise TypeError(f"{type(self).__name__} has no command line")

    def is_ready(self) -> bool:
        return answers_ok(self.url + self.ready_path)

    def spawn(self) -> subprocess.Popen[bytes]:
        """Started, and not waited for."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self.argv(), stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd=self.folder
            )
        return self.process

    def start(self) -> Self:
        """Returns when the server is ready. Raises RuntimeError with the end of its log."""
        process = self.spawn()
        try:
            wait_until(self.is_ready, what=self.name, process=process)
        except RuntimeError as error:
            self.kill()
            tail = self.log.read_text(errors="replace")[-2000:]
            raise RuntimeError(f"{error}\n{tail}") from None
        return self

    def kill(self) -> None:
        """SIGKILL, and gone when this returns. Nothing happens when it does not run."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()


class Prometheus(Server):
    """`config` is the text of prometheus.yml; `flags` come after the ones given here.

    Old blocks are kept: retention is a hundred years.
    """

    name = "prometheus"
    ready_path = "/-/ready"

    def __init__(
        self, folder: Path, *, config: str = "global: {}\n", flags: Sequence[str] = ()
    ) -> None:
        super().__init__(folder)
        self._binary = binary("prometheus")
        self._flags = list(flags)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "prometheus.yml").write_text(config)

    def argv(self) -> list[str]:
        return [
            self._binary,
            f"--config.file={self.folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={self.folder / 'data'}",
            "--storage.tsdb.retention.time=100y",
            f"--web.listen-address={HOST}:{self.port}",
            *self._flags,
        ]

    def backfill(self, series: Iterable[OldSeries]) -> None:
        """Writes samples of the past into the data folder, before the server starts."""
        dump = self.folder / "backfill.om"
        dump.write_text(openmetrics(series))
        self.backfill_file(dump)

    def backfill_file(self, dump: Path, *, block_hours: int = 2) -> None:
        """The same from a file of OpenMetrics text. The text is read once for every block, so
        what spans weeks wants long ones: 2 h times a power of three."""
        done = subprocess.run(
            [
                binary("promtool", package="prometheus"),
                *("tsdb", "create-blocks-from", "openmetrics"),
                f"--max-block-duration={block_hours}h",
                str(dump),
                str(self.folder / "data"),
            ],
            check=False,
            capture_output=True,
        )
        if done.returncode:
            raise RuntimeError(f"promtool: {done.stderr.decode(errors='replace')[-2000:]}")


@dataclass(frozen=True, slots=True)
class OldSeries:
    """`samples` are (milliseconds since the epoch, value), ascending."""

    metric: str
    labels: Mapping[str, str]
    samples: Sequence[tuple[int, float]]


def openmetrics(series: Iterable[OldSeries]) -> str:
    """The series in the text form that promtool back-fills from."""
    by_metric: dict[str, list[OldSeries]] = {}
    for one in series:
        by_metric.setdefault(one.metric, []).append(one)
    lines = []
    for metric, members in by_metric.items():
        lines.append(f"# TYPE {metric} gauge")
        for one in members:
            labels = ",".join(f'{name}="{_escaped(text)}"' for name, text in one.labels.items())
            for at_ms, value in one.samples:
                seconds = f"{at_ms // 1000}.{at_ms % 1000:03}"
                lines.append(f"{metric}{{{labels}}} {_spelled(value)} {seconds}")
    return "\n".join([*lines, "# EOF", ""])


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _spelled(value: float) -> str:
    return {"nan": "NaN", "inf": "+Inf", "-inf": "-Inf"}.get(repr(value), repr(value))


class Alertmanager(Server):
    """`config` is the text of alertmanager.yml."""

    name = "alertmanager"
    ready_path = "/-/ready"

    def __init__(self, folder: Path, *, config: str, flags: Sequence[str] = ()) -> None:
        super().__init__(folder)
        self._binary = binary("prometheus-alertmanager", "alertmanager")
        self._flags = list(flags)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "alertmanager.yml").write_text(config)

    def argv(self) -> list[str]:
        return [
            self._binary,
            f"--config.file={self.folder / 'alertmanager.yml'}",
            f"--storage.path={self.folder / 'data'}",
            f"--web.listen-address={HOST}:{self.port}",
            "--cluster.listen-address=",
            *self._flags,
        ]


class NodeExporter(Server):
    name = "node_exporter"
    ready_path = "/metrics"

    def __init__(self, folder: Path, *, flags: Sequence[str] = ()) -> None:
        super().__init__(folder)
        self._binary = binary("prometheus-node-exporter", "node_exporter")
        self._flags = list(flags)

    def argv(self) -> list[str]:
        return [self._binary, f"--web.listen-address={HOST}:{self.port}", *self._flags]
