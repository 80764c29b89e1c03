"""Who watches a measurement: how far it is, and what it is at."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[int, int], None]
"""Done, of how many."""
Say = Callable[[str], None]


def unseen(_done: int, _of: int) -> None:
    """Nobody watches."""


def silent(_text: str) -> None:
    """Nobody listens."""
