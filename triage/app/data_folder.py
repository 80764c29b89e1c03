"""Where the store is, and what lies beside it. Imports none of the store's libraries: commands
that only look here must not pay for them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from triage.app.settings import Settings

SQLITE = "sqlite:///"


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


def data_folder(settings: Settings) -> DataFolder:
    """Of the settings' SQLite file, whose path is absolute once they are loaded."""
    return DataFolder(path=Path(settings.store.url.removeprefix(SQLITE)).parent)
