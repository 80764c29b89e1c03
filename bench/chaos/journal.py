"""The sender's own record of what it was promised: one line for every 2xx answer.

Written before anything else is done with the answer, to a file that is only ever appended to. It
knows nothing of the daemons: what it says was accepted, they must account for.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import orjson


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """Times are seconds of `time.time`: `left_at` when this message was first sent, `at` when the
    2xx came. `kind` is `firing`, `resolve` or `again`. `ids` are those the answer named, `expected`
    those that the message's own identity gives."""

    at: float
    left_at: float
    message: int
    kind: str
    replica: int
    status: int
    ids: tuple[str, ...]
    expected: tuple[str, ...]


class Journal:
    """Appends; each line has left this process when `write` returns."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def write(self, promise: Promise) -> None:
        os.write(self._descriptor, orjson.dumps(asdict(promise)) + b"\n")

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def read_journal(path: Path) -> Sequence[Promise]:
    promises = []
    for line in path.read_bytes().splitlines():
        entry = orjson.loads(line)
        entry["ids"], entry["expected"] = tuple(entry["ids"]), tuple(entry["expected"])
        promises.append(Promise(**entry))
    return promises
