"""Checks and compiles a large library's sources in processes of their own.

One core lints and compiles some six hundred sources a second, and the interpreter's lock lets one
thread of a process do it. So a daemon with thousands of tools has others do it while it starts,
and a reload that brings hundreds of new ones keeps them off the event loop's process.

The processes only ever save time. What they give is filed under the hash of the bytes they read;
the loader reads and verifies every file itself, and does whatever they failed to do.
"""

from __future__ import annotations

import gc
import json
import marshal
import os
import subprocess
import sys
import threading
import time
from collections import deque
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import tomli

from triage.errors import Finding
from triage.library import linted
from triage.library.files import (
    MANIFEST_LIMIT,
    MANIFEST_NAME,
    Unreadable,
    is_folder_name,
    read_bounded,
)
from triage.library.memory import Checks
from triage.library.policy import SOURCE_LIMIT, Checked
from triage.model.canonical import sha256_hex

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from triage.library.memory import Source

WORTH_IT = 200  # sources: a process takes as long to start as these to be checked
BATCH = 64  # folders asked for at once
MAX_PROCESSES = 8
LENGTH_BYTES = 8
LIMIT_S = 60.0  # seconds: processes that take longer hang


class Ahead:
    """The active sources of some folders of a library, under way. Safe from one thread."""

    def __init__(self, root: Path, folders: Iterable[str]) -> None:
        self._root = root
        self._folders = list(folders)
        self._batches = deque(
            self._folders[at : at + BATCH] for at in range(0, len(self._folders), BATCH)
        )
        self._done: dict[Source, Checked] = {}
        self._processes: list[subprocess.Popen[bytes]] = []
        self._threads: list[threading.Thread] = []

    def start(self) -> Ahead:
        """Returns at once. Does nothing for a library that is loaded sooner than this starts."""
        if len(self._folders) < WORTH_IT or not sys.executable:
            return self
        for _ in range(min(MAX_PROCESSES, os.cpu_count() or 1)):
            try:
                process = self._spawn()
            except OSError:  # no more processes are to be had: the loader does it
                break
            self._processes.append(process)
            # A daemon thread: a start that is refused must not wait for compilers.
            thread = threading.Thread(
                target=self._feed, args=(process,), name="compiler", daemon=True
            )
            self._threads.append(thread)
            thread.start()
        return self

    def results(self) -> Mapping[Source, Checked]:
        """What came of it, when all is done or LIMIT_S is over. Blocks; raises nothing."""
        ends = time.monotonic() + LIMIT_S
        for thread in self._threads:
            thread.join(max(0.0, ends - time.monotonic()))
        self.close()
        for thread in self._threads:
            thread.join()  # its process is dead, so it has read the last there was
        self._threads.clear()
        return self._done

    def close(self) -> None:
        """End the processes, finished or not."""
        for process in self._processes:
            process.kill()
            process.wait()
        self._processes.clear()

    def _spawn(self) -> subprocess.Popen[bytes]:
        # -P: a project's folder is the current one, and its files are nobody's modules.
        optimize = ["-" + "O" * sys.flags.optimize] if sys.flags.optimize else []
        here = str(Path(__file__).parents[2])
        paths = [here, *filter(None, [os.environ.get("PYTHONPATH")])]
        return subprocess.Popen(  # noqa: S603 - this interpreter, this module
            [sys.executable, "-P", *optimize, "-m", "triage.library.ahead", str(self._root)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        )

    def _feed(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            with process.stdin, process.stdout:
                while self._batches:
                    process.stdin.write(json.dumps(self._batches.popleft()).encode() + b"\n")
                    process.stdin.flush()
                    self._take(_received(process.stdout))
        except (OSError, EOFError, ValueError, TypeError, IndexError):
            # It died, or another took the last batch: what was to be done is the loader's.
            return

    def _take(self, entries: list[Any]) -> None:
        for sha256, dynamic, code, findings in entries:
            self._done[sha256, dynamic] = Checked(
                code=code,
                findings=tuple(
                    Finding(
                        file=file, line=line, where=where, problem=problem, fix=fix, warning=warning
                    )
                    for file, line, where, problem, fix, warning in findings
                ),
            )


def begin(root: Path, *, passed: Path) -> Ahead:
    """For every folder of a library, the SOP's or not, unless `passed`, the file of `linted`,
    tells that it was loaded before: what is new since then the loader begins. Raises nothing."""
    if linted.read(passed):
        return Ahead(root, ())
    try:
        folders = [entry.name for entry in os.scandir(root) if entry.is_dir()]
    except OSError:
        folders = []
    return Ahead(root, folders).start()


def _received(stream: IO[bytes]) -> list[Any]:
    length = int.from_bytes(stream.read(LENGTH_BYTES), "big")
    body = stream.read(length)
    # Of a process of ours, over a pipe that nobody else has: as good as this process's own.
    entries: list[Any] = marshal.loads(body)  # noqa: S302
    return entries


# --- in the process ---------------------------------------------------------------------------


def serve(requests: Iterable[bytes], answers: IO[bytes], root: Path) -> None:
    """One answer a line of requests. Ends when they do."""
    checks = Checks({})
    told: set[Source] = set()
    for line in requests:
        entries = []
        for folder in json.loads(line):
            found = _active_source(root, folder)
            if found is None or found[0] in told:
                continue
            source, version, body = found
            told.add(source)
            checked = checks.check(
                source, body, file=f"{root.name}/{folder}/v{version}.py", node=folder
            )
            findings = [
                (f.file, f.line, f.where, f.problem, f.fix, f.warning) for f in checked.findings
            ]
            entries.append((*source, checked.code, findings))
        answer = marshal.dumps(entries)
        answers.write(len(answer).to_bytes(LENGTH_BYTES, "big") + answer)
        answers.flush()


def _active_source(root: Path, folder: str) -> tuple[Source, int, bytes] | None:
    """None for whatever is not in order: to say what is wrong is the loader's."""
    if not is_folder_name(folder):
        return None
    try:
        text = read_bounded(root / folder / MANIFEST_NAME, root=root, limit=MANIFEST_LIMIT)
        document = tomli.loads(text.decode())
        number = int(document["active"])
        entry = next(one for one in document["versions"] if one["version"] == number)
        body = read_bounded(root / folder / f"v{number}.py", root=root, limit=SOURCE_LIMIT)
    except (Unreadable, ValueError, TypeError, LookupError, RecursionError, StopIteration):
        return None
    # Under its own hash, whatever the manifest says.
    return (sha256_hex(body), entry.get("dynamic") is True), number, body


def main() -> None:
    gc.disable()  # syntax trees are many and have no cycles
    [root] = sys.argv[1:]
    serve(sys.stdin.buffer, sys.stdout.buffer, Path(root))


if __name__ == "__main__":
    main()
