"""A source that takes as long as it is told to, and keeps a record of what it was asked.

The daemon under test loads it (`type = "custom"`), so it imports little. The record is how a bench
knows, without asking the daemon, which alerts a replica had in its hands when it was killed.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from triage.errors import ToolFailed, ToolFailure
from triage.model.query import Answer, Query, Rows

FACTORY = "bench.chaos.source:open_source"


class SlowSource:
    """Answers every query for rows with one row, after `delay_ms`.

    With `record` each query appends a line: the time in seconds since the epoch, and the unit asked
    for. The line has left this process before the query is answered.
    """

    def __init__(self, name: str, *, delay_ms: float, record: Path | None) -> None:
        self._name = name
        self._delay_s = delay_ms / 1000
        self._path = record
        self._record = -1

    @property
    def name(self) -> str:
        return self._name

    async def open(self) -> None:
        if self._path is not None:
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
            self._record = os.open(self._path, flags, 0o644)

    async def ask(self, query: Query, *, timeout_s: float) -> Answer:  # noqa: ARG002 - never late
        if not isinstance(query, Rows):
            raise ToolFailed(ToolFailure.QUERY_REJECTED, "this source takes queries for rows only")
        if self._record >= 0:
            unit = dict(query.params).get("unit")
            os.write(self._record, f"{time.time():.6f} {unit}\n".encode())
        await asyncio.sleep(self._delay_s)
        return ({"minute": 1, "value": 60.0},)

    async def close(self) -> None:
        if self._record >= 0:
            os.close(self._record)
            self._record = -1


def open_source(
    name: str, *, path: Path | None, options: Mapping[str, Any], address: str
) -> SlowSource:
    """What `factory` in triage.toml names: `path` is the record's file."""
    return SlowSource(name, delay_ms=float(options.get("delay_ms", 0)), record=path)
