"""What an arrival turns out to be: the rules of identity, episodes and resolves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import bindparam, insert, select, update

from triage.adapters.store.events import record_event
from triage.adapters.store.schema import ALERTS, DELIVERIES, EPISODES, to_us
from triage.adapters.store.storms import first_of_storm
from triage.adapters.store.texts import as_json, check_words
from triage.adapters.store.transaction import Transaction
from triage.adapters.store.work import enqueue
from triage.errors import Overloaded
from triage.model.alert import (
    Accepted,
    AcceptStatus,
    AlertId,
    Arrival,
    ArrivalKind,
    episode_id,
    occurrence_id,
)
from triage.ports import AlertStatus, Clock

_KEY = ("integration", "tenant", "fingerprint")
_DAY_US = 86_400_000_000

_DELIVERY = select(DELIVERIES.c.alert_id).where(
    *(DELIVERIES.c[name] == bindparam(name) for name in ("integration", "tenant", "delivery_key"))
)
_NEW_DELIVERY = insert(DELIVERIES)
_NEW_ALERT = insert(ALERTS)
_KNOWN = select(ALERTS.c.unmatched_resolve, ALERTS.c.resolved_at).where(
    ALERTS.c.alert_id == bindparam("wanted")
)
_SEEN = (
    update(ALERTS)
    .where(ALERTS.c.alert_id == bindparam("wanted"), ALERTS.c.seen_at < bindparam("before"))
    .values(seen_at=bindparam("now"))
)
_JOIN = update(ALERTS).where(ALERTS.c.alert_id == bindparam("wanted")).values(unmatched_resolve=0)
_RESOLVE = (
    update(ALERTS)
    .where(ALERTS.c.alert_id == bindparam("wanted"), ALERTS.c.resolved_at.is_(None))
    .values(resolved_at=bindparam("at"))
)
_RESOLVE_KEY = (
    update(ALERTS)
    .where(
        *(ALERTS.c[name] == bindparam(f"its_{name}") for name in _KEY),
        ALERTS.c.resolved_at.is_(None),
        ALERTS.c.fired_at <= bindparam("until"),
    )
    .values(resolved_at=bindparam("at"))
)
_EPISODE = select(EPISODES.c.episode, EPISODES.c.open, EPISODES.c.resolved_at).where(
    *(EPISODES.c[name] == bindparam(name) for name in _KEY)
)
_NEW_EPISODE = insert(EPISODES)
_SET_EPISODE = (
    update(EPISODES)
    .where(*(EPISODES.c[name] == bindparam(f"its_{name}") for name in _KEY))
    .values(
        episode=bindparam("now_episode"),
        open=bindparam("now_open"),
        resolved_at=bindparam("now_resolved_at"),
    )
)


@dataclass(slots=True)
class Acceptance:
    """The operation behind `AlertLog.accept`: the arrivals of one request, all or none.

    `enqueues` writes the embedded queue's rows in the same transaction. Raises Overloaded when
    the request makes new work and more than `max_pending` alerts would then be pending, except
    that a request always fits into an empty store: sent again it would never get smaller. Where
    several processes accept, they may exceed it together by what each had under way.

    Nobody needs to hold a new alert for `sweep_s`. With `coalesce_s` above 0 one that fires again
    within so many seconds of the first of its fingerprint is coalesced into that.
    """

    arrivals: Sequence[Arrival]
    clock: Clock
    max_pending: int
    retry_after_s: int
    enqueues: bool
    sweep_s: float
    coalesce_s: float
    _now: int = 0
    _labels: list[tuple[str, str]] = field(default_factory=list)
    _locks: set[str] = field(default_factory=set)

    def prepare(self) -> None:
        """Raises PayloadError for text that has no UTF-8 form, or a NUL in it."""
        self._labels = []
        self._locks = set()
        for arrival in self.arrivals:
            check_words(arrival)
            labels = as_json("labels", arrival.labels)
            self._labels.append((labels, as_json("annotations", arrival.annotations)))
            integration, tenant = arrival.integration, arrival.tenant
            self._locks.add(fingerprint_lock(integration, tenant, arrival.fingerprint))
            if arrival.delivery_key:
                self._locks.add(f"delivery {integration}/{tenant}/{arrival.delivery_key}")
        self._now = to_us(self.clock.now())

    def __call__(self, transaction: Transaction) -> list[Accepted]:
        # Before the first read: another replica that takes the same message now has committed
        # when this one goes on, or waits for it.
        transaction.lock(*sorted(self._locks))
        accepted = [
            self._accept(transaction, index, arrival) for index, arrival in enumerate(self.arrivals)
        ]
        new = sum(answer.status is AcceptStatus.NEW for answer in accepted)
        pending = transaction.counted("pending") - new if new else 0
        if pending > 0 and pending + new > self.max_pending:
            raise Overloaded(
                f"{pending} alerts are pending and {new} more would exceed {self.max_pending}",
                self.retry_after_s,
            )
        return accepted

    def _accept(self, transaction: Transaction, index: int, arrival: Arrival) -> Accepted:
        answer = self._answer(transaction, index, arrival)
        if answer.alert_id is not None and answer.status is not AcceptStatus.NEW:
            # To the day, so that a sender who repeats himself every minute costs no write.
            before = self._now - _DAY_US
            transaction.run(_SEEN, wanted=answer.alert_id, before=before, now=self._now)
        return answer

    def _answer(self, transaction: Transaction, index: int, arrival: Arrival) -> Accepted:
        if arrival.delivery_key:
            seen = transaction.row(
                _DELIVERY,
                integration=arrival.integration,
                tenant=arrival.tenant,
                delivery_key=arrival.delivery_key,
            )
            if seen is not None:
                return _accepted(seen[0], AcceptStatus.DUPLICATE, arrival)
        answer = self._judge(transaction, index, arrival)
        if arrival.delivery_key:
            transaction.run(
                _NEW_DELIVERY,
                integration=arrival.integration,
                tenant=arrival.tenant,
                delivery_key=arrival.delivery_key,
                alert_id=answer.alert_id,
                at=self._now,
            )
        return answer

    def _judge(self, transaction: Transaction, index: int, arrival: Arrival) -> Accepted:
        match arrival.kind:
            case ArrivalKind.EVENT:
                return self._record(transaction, arrival)
            case ArrivalKind.FIRING:
                return self._fire(transaction, index, arrival)
            case ArrivalKind.RESOLVED:
                return self._resolve(transaction, index, arrival)

    # --- firing -------------------------------------------------------------------------------

    def _fire(self, transaction: Transaction, index: int, arrival: Arrival) -> Accepted:
        if arrival.starts_at_ns is not None:
            alert_id = occurrence_id(
                arrival.integration, arrival.tenant, arrival.fingerprint, arrival.starts_at_ns
            )
            if self._join(transaction, alert_id, arrival):
                return _accepted(alert_id, AcceptStatus.KNOWN, arrival)
            return self._insert(transaction, index, arrival, alert_id, None)
        found = transaction.row(_EPISODE, **_key(arrival))
        if found is None:
            self._new_episode(transaction, arrival, is_open=1, resolved_at=None)
            return self._insert(transaction, index, arrival, _episode_id(arrival, 1), 1)
        episode, is_open, resolved_at = found
        if is_open or (_observed(arrival, default=resolved_at) < resolved_at):
            # Told while it was open, or told late: its own time precedes the resolve.
            current = _episode_id(arrival, episode)
            if self._join(transaction, current, arrival):
                return _accepted(current, AcceptStatus.KNOWN, arrival)
            # Purged. The next number and not this one again: receivers know that by its id.
        self._set_episode(transaction, arrival, episode + 1, is_open=1, resolved_at=resolved_at)
        following = _episode_id(arrival, episode + 1)
        return self._insert(transaction, index, arrival, following, episode + 1)

    def _join(self, transaction: Transaction, alert_id: AlertId, arrival: Arrival) -> bool:
        """Whether the occurrence is known; one of which only the resolve had come is joined."""
        known = transaction.row(_KNOWN, wanted=alert_id)
        if known is not None and known[0]:
            transaction.run(_JOIN, wanted=alert_id)
            self._event(transaction, arrival, "joined", alert_id)
        return known is not None

    # --- resolved -----------------------------------------------------------------------------

    def _resolve(self, transaction: Transaction, index: int, arrival: Arrival) -> Accepted:
        if arrival.starts_at_ns is not None:
            alert_id = occurrence_id(
                arrival.integration, arrival.tenant, arrival.fingerprint, arrival.starts_at_ns
            )
            if transaction.row(_KNOWN, wanted=alert_id) is None:
                return self._insert(transaction, index, arrival, alert_id, None, resolved=True)
            return self._end(transaction, alert_id, arrival)
        observed = _observed(arrival, default=self._now)
        found = transaction.row(_EPISODE, **_key(arrival))
        if found is None:
            self._new_episode(transaction, arrival, is_open=0, resolved_at=observed)
            only = _episode_id(arrival, 1)
            return self._insert(transaction, index, arrival, only, 1, resolved=True)
        episode, is_open, resolved_at = found
        if is_open and arrival.observed_at is not None and observed <= (resolved_at or -1):
            # The resolve that ended the episode before, once more: it must not end this one.
            before = _episode_id(arrival, episode - 1)
            return _accepted(before, AcceptStatus.DUPLICATE, arrival)
        if is_open:
            self._set_episode(transaction, arrival, episode, is_open=0, resolved_at=observed)
        return self._end(transaction, _episode_id(arrival, episode), arrival)

    def _end(self, transaction: Transaction, alert_id: AlertId, arrival: Arrival) -> Accepted:
        if transaction.run(_RESOLVE, wanted=alert_id, at=self._now):
            self._event(transaction, arrival, "resolved", alert_id)
        return _accepted(alert_id, AcceptStatus.RESOLVED, arrival)

    # --- events -------------------------------------------------------------------------------

    def _record(self, transaction: Transaction, arrival: Arrival) -> Accepted:
        self._event(transaction, arrival, arrival.event or "event", None)
        if arrival.ends_open_occurrences:
            observed = _observed(arrival, default=self._now)
            its = {f"its_{name}": value for name, value in _key(arrival).items()}
            transaction.run(_RESOLVE_KEY, **its, until=observed, at=self._now)
            found = transaction.row(_EPISODE, **_key(arrival))
            if found is not None and found[1] and observed > (found[2] or -1):
                self._set_episode(transaction, arrival, found[0], is_open=0, resolved_at=observed)
        return _accepted(None, AcceptStatus.RECORDED, arrival)

    # --- rows ---------------------------------------------------------------------------------

    def _insert(
        self,
        transaction: Transaction,
        index: int,
        arrival: Arrival,
        alert_id: AlertId,
        episode: int | None,
        *,
        resolved: bool = False,
    ) -> Accepted:
        labels, annotations = self._labels[index]
        starts_at_ns = arrival.starts_at_ns
        first = None
        if self.coalesce_s > 0 and not resolved:
            since = self._now - round(self.coalesce_s * 1e6)
            first = first_of_storm(transaction, **_key(arrival), since=since)
        transaction.run(
            _NEW_ALERT,
            alert_id=alert_id,
            **_key(arrival),
            starts_at_ns=None if starts_at_ns is None else str(starts_at_ns),
            episode=episode,
            alarm=arrival.alarm,
            site=arrival.site,
            entity=arrival.entity,
            severity=arrival.severity.value,
            priority=arrival.severity.priority,
            fired_at=to_us(arrival.fired_at),
            accepted_at=self._now,
            labels=labels,
            annotations=annotations,
            raw=arrival.raw,
            status=AlertStatus.PENDING.value,
            attempts=0,
            resolved_at=self._now if resolved else None,
            unmatched_resolve=int(resolved),
            wake_at=self._now + round(self.sweep_s * 1e6),
            seen_at=self._now,
            coalesced_into=first,
        )
        transaction.count("accepted", 1)
        transaction.count("pending", 1)
        if self.enqueues:
            enqueue(transaction, alert_id, arrival.severity.priority, self._now)
        return _accepted(alert_id, AcceptStatus.NEW, arrival)

    def _event(
        self, transaction: Transaction, arrival: Arrival, event: str, alert_id: AlertId | None
    ) -> None:
        record_event(
            transaction,
            event,
            **_key(arrival),
            alert_id=alert_id,
            at=self._now,
            raw=arrival.raw,
        )

    def _new_episode(
        self, transaction: Transaction, arrival: Arrival, *, is_open: int, resolved_at: int | None
    ) -> None:
        transaction.run(
            _NEW_EPISODE, **_key(arrival), episode=1, open=is_open, resolved_at=resolved_at
        )

    def _set_episode(
        self,
        transaction: Transaction,
        arrival: Arrival,
        episode: int,
        *,
        is_open: int,
        resolved_at: int | None,
    ) -> None:
        transaction.run(
            _SET_EPISODE,
            **{f"its_{name}": value for name, value in _key(arrival).items()},
            now_episode=episode,
            now_open=is_open,
            now_resolved_at=resolved_at,
        )


def fingerprint_lock(integration: str, tenant: str, fingerprint: str) -> str:
    """Held by whoever decides what is known of this fingerprint. Two may share a name, which
    costs them a wait and nothing else."""
    return f"fingerprint {integration}/{tenant}/{fingerprint}"


def _key(arrival: Arrival) -> dict[str, Any]:
    return {
        "integration": arrival.integration,
        "tenant": arrival.tenant,
        "fingerprint": arrival.fingerprint,
    }


def _episode_id(arrival: Arrival, episode: int) -> AlertId:
    return episode_id(arrival.integration, arrival.tenant, arrival.fingerprint, episode)


def _observed(arrival: Arrival, *, default: int) -> int:
    return default if arrival.observed_at is None else to_us(arrival.observed_at)


def _accepted(alert_id: AlertId | None, status: AcceptStatus, arrival: Arrival) -> Accepted:
    return Accepted(alert_id=alert_id, status=status, severity=arrival.severity)
