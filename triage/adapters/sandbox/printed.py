"""What a run prints."""

from __future__ import annotations

from typing import TYPE_CHECKING

from triage.adapters.sandbox.values import clean_text

if TYPE_CHECKING:
    from collections.abc import Callable

_FLOOD = 64  # times what is kept: a run that prints more than that is not going to stop


class Printed:
    """Keeps the first `most_bytes`. `take` is called in the worker's thread."""

    def __init__(self, most_bytes: int, *, flooded: Callable[[], None]) -> None:
        """`flooded` is called when the code prints without end: raising from `take` would not stop
        it before its time is over."""
        self._most_bytes = most_bytes
        self._flooded = flooded
        self._kept: list[bytes] = []
        self._size = 0
        self._is_flood = False

    def take(self, _stream: str, text: str) -> None:
        piece = clean_text(text).encode()
        room = self._most_bytes - self._size
        self._size += len(piece)
        if room > 0:
            self._kept.append(piece[:room])
        if self._size > self._most_bytes * _FLOOD and not self._is_flood:
            self._is_flood = True
            self._flooded()

    @property
    def text(self) -> str:
        """With a note of what was dropped."""
        text = b"".join(self._kept).decode("utf-8", "ignore")
        if (dropped := self._size - self._most_bytes) > 0:
            text += f"\n… and {dropped:,} bytes more, which were not kept"
        return text
