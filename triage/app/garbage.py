"""How a daemon has the interpreter behave: it looks for garbage between alerts, and not while it
loads.

What a decision makes is freed by its reference count. What stays for a while, for shadows and
watchers, makes the collector look through it: for 0.4 ms every seven alerts, and for 2 to 5 ms
every seventy, if it is the interpreter that chooses when.
"""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from triage.engine.engine import Decided
from triage.engine.snapshot import Snapshot
from triage.model.alert import Alert
from triage.trial.model import Ease

ENOUGH = 700
"""New objects that are worth a look, by the interpreter's own measure."""
OFTEN = 10
"""Looks at the new ones after which older ones are looked at too, as the interpreter has it."""
SELDOM = 100
"""Looks at older ones after which all are looked at. The interpreter weighs first how many have
come to stay since; who asks it to look cannot."""
TOO_MANY = 5_000
"""New objects that the interpreter looks through by itself, in 3 ms: looks follow decisions, and
there may be no time between those, or none."""

SWITCH_S = 0.001  # seconds that another thread may keep the interpreter from the event loop
NEVER = 1 << 30


def settle_in() -> None:
    """For a daemon, once it is imported: what there is stays and is never looked through, and the
    event loop does not wait long for threads that compute."""
    gc.freeze()
    gc.set_threshold(TOO_MANY, 1, SELDOM)  # ten times so many older ones would take 30 ms
    gc.enable()
    sys.setswitchinterval(SWITCH_S)


@contextmanager
def undisturbed() -> Iterator[None]:
    """While thousands of objects are made that will stay, beside an event loop that must go on.

    A full collection would stop every thread for 0.2 s with 4,400 tools loaded, at a time of its
    own choosing, so there is none until they are made; then they are put out of its sight for
    good. What a reload replaces is freed by its reference count, but for the few KB of each
    changed tool, whose functions and globals hold each other.
    """
    before = gc.get_threshold()
    gc.set_threshold(ENOUGH, OFTEN, NEVER)
    try:
        yield
    finally:
        gc.freeze()
        gc.set_threshold(*before)


class Garbage:
    """Looks for it after decisions, as a `worker.Watcher`, once nothing is under way."""

    def __init__(self, *, is_busy: Callable[[], bool], calm: Ease) -> None:
        """`calm` returns once it is not busy, or after a while."""
        self._is_busy = is_busy
        self._calm = calm
        self._decided = asyncio.Event()
        self._stopping = False

    def offer(self, _alert: Alert, _decided: Decided, _snapshot: Snapshot) -> None:
        self._decided.set()

    def stop(self) -> None:
        self._stopping = True
        self._decided.set()

    async def run(self) -> None:
        """Until `stop`."""
        while not self._stopping:
            await self._decided.wait()
            self._decided.clear()
            if gc.get_count()[0] >= ENOUGH and not self._stopping:
                await self.ease()

    async def ease(self) -> None:
        """For whatever comes after alerts: garbage goes first in the gap that it waits for."""
        await self._calm()
        self.collect()

    def collect(self) -> None:
        """If it is worth it, and no alert is under way."""
        young, middle, old = gc.get_count()
        if young < ENOUGH or self._is_busy():
            return
        seldom = gc.get_threshold()[2]  # `undisturbed` has a word in this too
        gc.collect(0 if middle <= OFTEN else 1 if old <= seldom else 2)
