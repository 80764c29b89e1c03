"""Leaves an endpoint alone that failed several times in a row."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Breaker:
    """Opens after `failures` calls that failed in a row, for `reset_s` seconds of `monotonic`;
    then one call at a time probes the endpoint, until one succeeds."""

    def __init__(self, *, failures: int, reset_s: float, monotonic: Callable[[], float]) -> None:
        self._failures = failures
        self._reset_s = reset_s
        self._monotonic = monotonic
        self._in_a_row = 0
        self._open_until = 0.0
        self._probing = False
        self._last = ""

    @property
    def is_open(self) -> bool:
        return self._in_a_row >= self._failures

    @property
    def refusal(self) -> str:
        """Why a call may not go just now; empty when it may."""
        if not self.is_open:
            return ""
        left = self._open_until - self._monotonic()
        if left > 0:
            when = f"asked again in {left:.0f} s" if left >= 1 else "asked again in a moment"
        elif self._probing:
            when = "just being asked again"
        else:
            return ""
        return f"failed {self._in_a_row} times in a row and is {when}; the last time: {self._last}"

    @contextmanager
    def call(self) -> Iterator[None]:
        """Around a call that may go. Whatever ends it, cancellation too, another may probe then."""
        is_probe = self.is_open
        self._probing = self._probing or is_probe
        try:
            yield
        finally:
            if is_probe:
                self._probing = False

    def succeeded(self) -> None:
        self._in_a_row = 0

    def failed(self, why: str) -> None:
        """`why` is for people, and holds no secret."""
        self._in_a_row += 1
        self._last = why
        if self.is_open:
            self._open_until = self._monotonic() + self._reset_s
