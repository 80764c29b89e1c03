"""What belongs to one process, and outlives it. Imports none of the store's libraries: commands
that only look here must not pay for them."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from triage.app.settings import Settings
from triage.errors import ConfigError

LOCK = "process.lock"


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFolder:
    """What must outlive a process that was killed."""

    path: Path

    @property
    def quarantine(self) -> Path:
        return self.path / "quarantine.json"

    @property
    def linted(self) -> Path:
        return self.path / "linted"

    @property
    def tool_mark(self) -> Path:
        return self.path / "running-tool"

    @property
    def blocked(self) -> Path:
        return self.path / "blocked.txt"

    def suspect(self, stream: str) -> Path:
        """The message of a stream that was taken alone."""
        return self.path / f"suspect-{stream}.json"

    @contextmanager
    def held(self) -> Iterator[None]:
        """Made where it is missing, and this process's own meanwhile; the kernel lets go of it
        when the process dies. Raises ConfigError naming the process that has it."""
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            lock = os.open(self.path / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise ConfigError(
                f"the folder {self.path} cannot be used: {error.strerror};"
                " name another with store.data"
            ) from error
        try:
            self._lock(lock)
            yield
        finally:
            os.close(lock)

    def _lock(self, descriptor: int) -> None:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(descriptor, 32).decode("ascii", "replace").strip() or "unknown"
            raise ConfigError(
                f"the folder {self.path} is in use by process {holder}: stop it, or give this one"
                " a folder of its own with store.data"
            ) from None
        os.ftruncate(descriptor, 0)
        os.write(descriptor, f"{os.getpid()}\n".encode())


def data_folder(settings: Settings) -> DataFolder:
    """`store.data`, which loading fills in."""
    assert settings.store.data is not None, "Settings.load fills it in"
    return DataFolder(path=settings.store.data)
