"""Where a daemon of this configuration keeps what a command reads."""

from __future__ import annotations

from pathlib import Path

from triage.app.settings import Settings


def quarantine_file(settings: Settings) -> Path:
    """Beside the store, as `triage.app.daemon` has it; found without the store's libraries, which
    cost more than all the rest of a command."""
    return Path(settings.store.url.removeprefix("sqlite:///")).parent / "quarantine.json"
