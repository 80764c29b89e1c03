"""The demo's day, played: alerts when they fire, decisions when they come, some walks whole."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from bench.demo.screen import DAY_S, Screen
from bench.demo.truth import PICKS, Document, Truth, pick_of
from bench.demo.wire import Wire
from bench.replay.alerts import HistoricalAlert
from bench.servers import wait_until

TICK_S = 0.1
SETTLE_S = 60.0
"""How long the daemon may take for what is left when the day is over: a machine that is busy with
other things lags behind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """Seconds. Without `day_s` everything is sent at once. The day stands still for `reading_s`
    when a whole walk is new on the screen, and there is one every `apart_s` at most."""

    day_s: float
    reading_s: float
    apart_s: float


WATCHED = Pace(day_s=25.0, reading_s=2.5, apart_s=4.0)
LISTED = Pace(day_s=25.0, reading_s=0.0, apart_s=4.0)
AT_ONCE = Pace(day_s=0.0, reading_s=0.0, apart_s=0.0)


@dataclass(slots=True, kw_only=True)
class Day:
    """What was sent and what became of it, by the alerts' ids."""

    sent: dict[str, HistoricalAlert] = field(default_factory=dict)
    decided: dict[str, Document] = field(default_factory=dict)
    shown: list[str] = field(default_factory=list)
    """Those that were shown whole."""

    @property
    def pairs(self) -> list[tuple[HistoricalAlert, Document]]:
        return [(self.sent[alert_id], document) for alert_id, document in self.decided.items()]


def rehearse(wire: Wire, at: int) -> None:
    """One alert before the day, of an alarm that asks controllers and metrics. Raises RuntimeError
    when it is not decided in time, httpx.HTTPError when the daemon does not answer."""
    alert = HistoricalAlert(
        alarm="al_robot_cell_down",
        site=0,
        entity="RC-00",
        at=at,
        severity="warning",
        kinds=frozenset(),
    )
    sent = wire.send([alert])
    wait_until(lambda: bool(wire.decided(sent)), what="the first alert", within_s=SETTLE_S)


class Player:
    """`begins` is the day's first second since the epoch."""

    def __init__(self, wire: Wire, screen: Screen, truth: Truth, pace: Pace, begins: int) -> None:
        self._wire = wire
        self._screen = screen
        self._truth = truth
        self._pace = pace
        self._begins = begins
        self._wanted = list(PICKS)
        self._found: dict[str, str] = {}
        self._day = Day()

    def play(self, alerts: Sequence[HistoricalAlert]) -> Day:
        """`alerts` are in the order they fired. What is not decided when the day has long been
        over is left out of `decided`. Raises httpx.HTTPError when the daemon does not answer."""
        left = deque(alerts)
        elapsed, last = 0.0, time.monotonic()
        free_at = last  # when the next whole walk may be shown
        patience = 0.0
        while left or self._pending() or self._found:
            at = self._clock(elapsed)
            due = []
            while left and left[0].at <= at:
                due.append(left.popleft())
            self._day.sent.update(self._wire.send(due))
            self._take()
            self._screen.show(at, len(self._day.sent))
            if time.monotonic() >= free_at and self._show_walk():
                self._screen.show(at, len(self._day.sent))
                time.sleep(self._pace.reading_s)
                last = time.monotonic()
                free_at = last + self._pace.apart_s
            if not left and self._pending():
                patience += TICK_S
                if patience > SETTLE_S:
                    break
            time.sleep(TICK_S)
            now = time.monotonic()
            elapsed, last = elapsed + now - last, now
        return self._day

    def _clock(self, elapsed: float) -> float:
        """Seconds since the epoch, of the day that is played."""
        if not self._pace.day_s:
            return self._begins + DAY_S
        return self._begins + DAY_S * min(1.0, elapsed / self._pace.day_s)

    def _pending(self) -> set[str]:
        return self._day.sent.keys() - self._day.decided.keys()

    def _take(self) -> None:
        for document in self._wire.decided(self._pending()):
            alert_id = document["alert_id"]
            alert = self._day.sent[alert_id]
            self._day.decided[alert_id] = document
            self._screen.decided(alert, document)
            pick = pick_of(
                self._wanted,
                document,
                real=all(self._truth.real(document, alert).values()),
                quiet=self._truth.quiet(alert),
            )
            if pick is not None:
                self._wanted.remove(pick)
                self._found[pick.title] = alert_id

    def _show_walk(self) -> bool:
        """Whether one was waiting to be shown."""
        if not self._found:
            return False
        title = next(iter(self._found))
        alert_id = self._found.pop(title)
        alert, document = self._day.sent[alert_id], self._day.decided[alert_id]
        self._day.shown.append(alert_id)
        self._screen.walk(title, document, self._truth.told(document, alert))
        return True
