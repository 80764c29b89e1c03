"""Decisions appended to a file, one JSON object a line."""

from __future__ import annotations

import asyncio
import errno
import os
import stat
from pathlib import Path

import anyio.to_thread
import orjson

NEW_FILE_MODE = 0o640


class JsonLinesSink:
    """Appends `{"key": …, "decision": …}`, on disk when `send` returns.

    Each message is one write to a file opened for appending, so that other writers and readers
    that follow the file meet whole lines. A file that was moved away (log rotation) is made
    anew at the next message. A line that a crash or a full disk cut off is ended first, so that
    it spoils no other; its message is sent again, as a line of its own.

    `send` raises OSError while the file cannot be written. Cancelled, it returns once the write
    that has begun is over: the message may then be in the file.
    """

    def __init__(self, name: str, path: Path) -> None:
        self._name = name
        self._path = path
        self._descriptor: int | None = None
        self._lock = asyncio.Lock()

    def __repr__(self) -> str:
        return f"JsonLinesSink(name={self._name!r}, path={str(self._path)!r})"

    @property
    def name(self) -> str:
        return self._name

    async def send(self, key: str, body: bytes) -> None:
        # Outside of strings a line feed in JSON is white space, and in strings it cannot be.
        line = b'{"key":%b,"decision":%b}\n' % (orjson.dumps(key), body.replace(b"\n", b" "))
        async with self._lock:
            await anyio.to_thread.run_sync(self._append, line)

    async def close(self) -> None:
        async with self._lock:
            await anyio.to_thread.run_sync(self._close)

    def _append(self, line: bytes) -> None:
        descriptor = self._open()
        try:
            written = os.write(descriptor, line)
            if written != len(line):
                raise OSError(errno.ENOSPC, "only part of the line was written", str(self._path))
            os.fsync(descriptor)
        except OSError:
            # What the file's end looks like now is unknown: look again before the next line.
            self._close()
            raise

    def _open(self) -> int:
        if self._descriptor is not None:
            if self._is_current(self._descriptor):
                return self._descriptor
            self._close()
        self._path.parent.mkdir(parents=True, exist_ok=True)
        # O_NONBLOCK: opening a pipe that nobody reads would otherwise block for ever.
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK
        descriptor = os.open(self._path, flags, NEW_FILE_MODE)
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise OSError(errno.EINVAL, "not a regular file", str(self._path))
            if status.st_size == 0:
                self._sync_folder()
            elif os.pread(descriptor, 1, status.st_size - 1) != b"\n":
                os.write(descriptor, b"\n")
        except OSError:
            os.close(descriptor)
            raise
        self._descriptor = descriptor
        return descriptor

    def _is_current(self, descriptor: int) -> bool:
        try:
            there = os.stat(self._path)  # noqa: PTH116 - beside fstat, as one reads them
        except FileNotFoundError:
            return False
        return os.path.samestat(there, os.fstat(descriptor))

    def _sync_folder(self) -> None:
        """A new file's name is durable only when its folder is."""
        folder = os.open(self._path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def _close(self) -> None:
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)
