"""How long the alerts of a replica that died had to wait for another.

A replica *holds* an alert at the moment of its death (SIGKILL) or stop (SIGSTOP) when it was the
last to ask a source for it, and the alert was not decided by then. For each such alert,

    recovery = (end - death) - dark - queued

`end` is when it was decided; or, when a later death took it out of the hands of whoever had it by
then, when that one had first asked a source for it. `dark` is the part of that time in which nobody
could take over: no replica was ready, or the broker or the database was down, up to the first
replica that said it was ready after that. `queued` is the least time that any alert of the same
priority, accepted after the death and never held by a dead replica, had waited when it was decided
within QUEUE_S before `end`: what an alert had to wait then that nothing had happened to. So the
figure is what the lease, its expiry, the sweep and the second attempt cost, and compares with
lease + 2 s.

A recovery is *disturbed* when a server was down or hung at any time of it: a broker that restarts
may begin its leases anew, so such ones are told apart.

What it cannot see: an alert that a replica had claimed and not yet asked a source for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bench.chaos.facts import AlertRow, Ask, Asks, DecisionRow

QUEUE_S = 0.5

Spans = Sequence[tuple[float, float]]
"""(from, until), ascending and apart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Death:
    """`kind` is `kill` or `stop`; `at` seconds of `time.time`."""

    at: float
    replica: int
    kind: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovery:
    """Of one alert from one death. `waited_s` is all of the time, dark and queued included."""

    alert_id: str
    death: Death
    recovery_s: float
    waited_s: float
    dark_s: float
    queued_s: float
    disturbed: bool


def recoveries(
    deaths: Sequence[Death],
    asks: Asks,
    alerts: Mapping[str, AlertRow],
    decisions: Sequence[DecisionRow],
    *,
    dark: Spans,
    outages: Spans,
) -> list[Recovery]:
    """The longest first. Alerts that were never decided are not among them: they are missing."""
    decided_at = {one.alert_id: one.decided_at for one in decisions}
    in_order = sorted(deaths, key=lambda death: death.at)
    held: dict[str, list[tuple[Death, float]]] = {}
    for alert_id, row in alerts.items():
        if alert_id in decided_at and row.entity in asks:
            spans = _held(in_order, asks[row.entity], decided_at[alert_id])
            if spans:
                held[alert_id] = spans
    waits = _Waits(alerts, decided_at, leaving_out=held)
    found = []
    for alert_id, spans in held.items():
        for death, end in spans:
            dark_s = overlap(dark, death.at, end)
            queued_s = waits.least(alerts[alert_id].priority, death.at, end)
            found.append(
                Recovery(
                    alert_id=alert_id,
                    death=death,
                    recovery_s=max(0.0, end - death.at - dark_s - queued_s),
                    waited_s=end - death.at,
                    dark_s=dark_s,
                    queued_s=queued_s,
                    disturbed=overlap(outages, death.at, end) > 0,
                )
            )
    return sorted(found, key=lambda one: one.recovery_s, reverse=True)


def _held(
    deaths: Sequence[Death], asks: Sequence[Ask], decided_at: float
) -> list[tuple[Death, float]]:
    """The deaths at which the dead one held the alert, and when each was made good."""
    took = []
    for death in deaths:
        if not asks[0].at < death.at < decided_at:
            continue
        last = max((ask for ask in asks if ask.at < death.at), key=lambda ask: ask.at)
        if last.replica == death.replica:
            took.append(death)
    spans = []
    for place, death in enumerate(took):
        end = decided_at
        if place + 1 < len(took):
            # Up to the next death only, and it was in good hands again before that.
            end = min((ask.at for ask in asks if ask.at > death.at), default=decided_at)
            if end > took[place + 1].at:
                continue  # the same hands died twice (stopped, then killed): the second has it
        spans.append((death, end))
    return spans


class _Waits:
    """Accepted to decided, of alerts that no dead replica ever held."""

    def __init__(
        self,
        alerts: Mapping[str, AlertRow],
        decided_at: Mapping[str, float],
        leaving_out: Mapping[str, object],
    ) -> None:
        self._by_priority: dict[int, list[tuple[float, float]]] = {}
        for alert_id, row in alerts.items():
            if alert_id in decided_at and alert_id not in leaving_out:
                pair = (row.accepted_at, decided_at[alert_id])
                self._by_priority.setdefault(row.priority, []).append(pair)

    def least(self, priority: int, accepted_after: float, decided_before: float) -> float:
        return min(
            (
                decided_at - accepted_at
                for accepted_at, decided_at in self._by_priority.get(priority, ())
                if accepted_at > accepted_after
                and decided_before - QUEUE_S < decided_at <= decided_before
            ),
            default=0.0,
        )


def overlap(spans: Spans, start: float, end: float) -> float:
    """Seconds of (start, end) that lie in `spans`."""
    return sum(max(0.0, min(until, end) - max(since, start)) for since, until in spans)
