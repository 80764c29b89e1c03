"""Which message was being taken when the process ended."""

from __future__ import annotations

from pathlib import Path

import orjson


class Suspects:
    """A note on disk about the one message that is taken alone just now, because it was delivered
    often and never settled. The file is left behind by a process that ends meanwhile."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def enter(self, message_id: str) -> int:
        """How many processes in a row have ended while they took this message. Raises OSError."""
        ended = self._ended(message_id)
        # No fsync: it need not outlive the machine, only the process.
        self._file.write_bytes(orjson.dumps({"message_id": message_id, "ended": ended + 1}))
        return ended

    def leave(self) -> None:
        """It has been taken, or has failed in a way that the process survived."""
        self._file.unlink(missing_ok=True)

    def _ended(self, message_id: str) -> int:
        try:
            note = orjson.loads(self._file.read_bytes())
        except (FileNotFoundError, orjson.JSONDecodeError):
            return 0
        if not isinstance(note, dict) or note.get("message_id") != message_id:
            return 0
        ended = note.get("ended")
        return ended if isinstance(ended, int) else 0
