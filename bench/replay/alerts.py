"""The historical alerts: raw alarms of the world, chosen as a quarter's alerts are mixed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from math import ceil
from zoneinfo import ZoneInfo

from bench.world.alarms import RawAlarm, raw_alarms
from bench.world.calendar import shifts
from bench.world.chance import stream, uniform
from bench.world.layout import SITES, spell
from bench.world.world import HISTORY_DAYS, World
from triage.model.alert import Alert, AlertId, Arrival, ArrivalKind, Severity, occurrence_id

SHARES: Mapping[str, int] = {
    "al_pick_fail_high": 16,
    "al_chute_full": 15,
    "al_jam_repeat": 13,
    "al_recirc_high": 10,
    "al_no_read_high": 10,
    "al_induct_rate_low": 7,
    "al_robot_cell_down": 6,
    "al_infeed_backup": 6,
    "al_divert_fail_high": 4,
    "al_staging_over": 4,
    "al_departure_risk": 4,
    "al_container_lag": 2,
    "al_drive_warning": 2,
    "al_sorter_stopped": 1,
}
"""Percent of all alerts, by alarm."""

INTEGRATION = "native"
NEAR_S = 900
DAY_S = 86_400
RARE = ("silent", "clocks_changed", "midnight", "shift_change", "overlap")
RARE_SHARE = 0.06
"""Of an alarm's alerts, at least so many of each rare kind, where the world has them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoricalAlert:
    """`site` is an index, `at` seconds since the epoch. `kinds` are those of RARE it is of, and
    `look_alike` when something that is no fault was going on, and no fault."""

    alarm: str
    site: int
    entity: str
    at: int
    severity: str
    kinds: frozenset[str]

    @property
    def arrival(self) -> Arrival:
        """As the alert queue's consumer reads it; the entity is spelled as the site spells it."""
        style = SITES[self.site]
        entity = spell(self.entity, style.spelling)
        return Arrival(
            kind=ArrivalKind.FIRING,
            integration=INTEGRATION,
            tenant="",
            fingerprint=f"{style.facts.name}/{self.alarm}/{self.entity}",
            starts_at_ns=self.at * 10**9,
            alarm=self.alarm,
            site=style.facts.name,
            entity=entity,
            severity=Severity(self.severity),
            fired_at=datetime.fromtimestamp(self.at, UTC),
            labels={"alertname": self.alarm, "site": style.facts.name, "asset": entity},
        )

    @property
    def alert_id(self) -> AlertId:
        arrival = self.arrival
        return occurrence_id(
            arrival.integration, arrival.tenant, arrival.fingerprint, self.at * 10**9
        )

    def alert(self, accepted_at: datetime) -> Alert:
        """As the store gives it to the worker."""
        arrival = self.arrival
        return Alert(
            alert_id=self.alert_id,
            integration=arrival.integration,
            tenant=arrival.tenant,
            fingerprint=arrival.fingerprint,
            alarm=arrival.alarm,
            site=arrival.site,
            entity=arrival.entity,
            severity=arrival.severity,
            fired_at=arrival.fired_at,
            accepted_at=accepted_at,
            labels=arrival.labels,
            annotations={},
        )


def historical_alerts(
    world: World,
    count: int,
    *,
    between: tuple[int, int] | None = None,
    sites: Sequence[int] | None = None,
) -> list[HistoricalAlert]:
    """`count` alerts in the order they fired, or as many as there are.

    `between` is (start, end] in seconds since the epoch, by default all that has four weeks
    before it. An alarm that fired too seldom leaves its share to the others.
    """
    begin, end = between or (world.start + HISTORY_DAYS * DAY_S, world.end)
    marks = [_Marks(world, site) for site in range(len(world.sites))]
    found: dict[str, list[HistoricalAlert]] = {alarm: [] for alarm in SHARES}
    for site in range(len(world.sites)) if sites is None else sites:
        for raw in raw_alarms(world.minutes, site):
            if begin < raw.at <= end:
                found[raw.alarm].append(_historical(raw, marks[site]))
    for alarm, ones in found.items():
        ones.sort(key=lambda one: uniform(stream(world.seed, alarm, one.entity, one.site), one.at))
    return sorted(_chosen(found, count), key=lambda one: (one.at, one.site, one.alarm, one.entity))


def _chosen(found: Mapping[str, list[HistoricalAlert]], count: int) -> Iterator[HistoricalAlert]:
    quotas = _quotas({alarm: len(ones) for alarm, ones in found.items()}, count)
    for alarm, quota in quotas.items():
        ones = found[alarm]
        first: dict[HistoricalAlert, None] = {}
        for kind in RARE:
            some = [one for one in ones if kind in one.kinds]
            first.update(dict.fromkeys(some[: ceil(RARE_SHARE * quota)]))
        first.update(dict.fromkeys(ones))
        yield from list(first)[:quota]


def _quotas(there: Mapping[str, int], count: int) -> dict[str, int]:
    """How many of each alarm: its share, or all there are and the rest among the others."""
    quotas = dict.fromkeys(there, 0)
    left = min(count, sum(there.values()))
    while left:
        open_shares = {a: SHARES[a] for a in there if quotas[a] < there[a]}
        whole = sum(open_shares.values())
        given = 0
        for alarm, share in open_shares.items():
            more = min(ceil(left * share / whole), there[alarm] - quotas[alarm], left - given)
            quotas[alarm] += more
            given += more
        left -= given
    return quotas


def _historical(raw: RawAlarm, marks: _Marks) -> HistoricalAlert:
    return HistoricalAlert(
        alarm=raw.alarm,
        site=raw.site,
        entity=raw.entity,
        at=raw.at,
        severity=raw.severity,
        kinds=frozenset(marks.of(raw.at)),
    )


class _Marks:
    """What is unusual about an instant at one site."""

    def __init__(self, world: World, site: int) -> None:
        minutes = world.minutes
        self._start = world.start
        self._silent = minutes.metrics_silent[site].any(axis=1) | minutes.warehouse_silent[site]
        self._episodes = [one for one in minutes.episodes if one.site == site]
        self._zone = ZoneInfo(world.sites[site].zone)
        self._shifts = [shift.start for shift in shifts(site, world.start, world.end)]

    def of(self, at: int) -> Iterator[str]:
        minute = (at - self._start) // 60
        if self._silent[max(0, minute - NEAR_S // 60) : minute].any():
            yield "silent"
        here = datetime.fromtimestamp(at, self._zone)
        if any((here + timedelta(days=days)).utcoffset() != here.utcoffset() for days in (-1, 1)):
            yield "clocks_changed"
        if abs((here.hour * 60 + here.minute + 720) % 1440 - 720) * 60 <= NEAR_S:
            yield "midnight"
        if any(abs(at - shift) <= NEAR_S for shift in self._shifts):
            yield "shift_change"
        active = [one for one in self._episodes if one.start <= at <= one.end]
        faults = [one for one in active if not one.fault.startswith("not_")]
        if len(faults) > 1:
            yield "overlap"
        if active and not faults:
            yield "look_alike"
