"""What people do with dead letters: try one again, or take it out for good."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import orjson
from sqlalchemy import bindparam, delete, update

from triage.adapters.store.arrivals import Acceptance
from triage.adapters.store.events import record_event
from triage.adapters.store.schema import ALERTS, DEAD_LETTERS, storable, to_us
from triage.adapters.store.transaction import Transaction
from triage.adapters.store.work import enqueue
from triage.errors import PayloadError, StoreError
from triage.model.alert import Accepted, AcceptStatus, AlertId, Severity
from triage.model.gap import CLOSED_BY_CHARS, NOTE_CHARS
from triage.ports import AlertStatus, Clock

# The row is what two people cannot both take.
_TAKE = (
    delete(DEAD_LETTERS)
    .where(DEAD_LETTERS.c.dead_letter_id == bindparam("wanted"))
    .returning(
        DEAD_LETTERS.c.alert_id,
        DEAD_LETTERS.c.stream,
        DEAD_LETTERS.c.reason,
        DEAD_LETTERS.c.detail,
        DEAD_LETTERS.c.attempts,
    )
)
_IS_DEAD = (
    ALERTS.c.alert_id == bindparam("wanted"),
    ALERTS.c.status == AlertStatus.DEAD_LETTERED.value,
)
_ITS = (
    ALERTS.c.integration,
    ALERTS.c.tenant,
    ALERTS.c.fingerprint,
    ALERTS.c.severity,
)
_REVIVE = (
    update(ALERTS)
    .where(*_IS_DEAD)
    .values(status=AlertStatus.PENDING.value, attempts=0, wake_at=bindparam("now"))
    .returning(*_ITS)
)
_DISCARD = (
    update(ALERTS).where(*_IS_DEAD).values(status=AlertStatus.DISCARDED.value).returning(*_ITS)
)


class _Taken(NamedTuple):
    """A dead letter that lies there no more. `alert_id` is None for a message."""

    alert_id: str | None
    stream: str
    reason: str
    detail: str
    attempts: int


@dataclass(slots=True)
class Redrive:
    """The operation behind `DeadLetterLog.redrive`."""

    dead_letter_id: str
    by: str
    at: int
    arrivals: Acceptance
    clock: Clock
    enqueues: bool

    def prepare(self) -> None:
        """Raises PayloadError."""
        self.arrivals.prepare()

    def __call__(self, transaction: Transaction) -> list[Accepted] | None:
        taken = _take(transaction, self.dead_letter_id)
        if taken is None:
            return None
        transaction.count("dead_lettered", -1)
        if taken.alert_id is not None:
            return [self._revive(transaction, taken, AlertId(taken.alert_id))]
        if not self.arrivals.arrivals:
            raise PayloadError("body", "holds nothing that is an alert: discard it")
        transaction.count("accepted", -1)
        accepted = self.arrivals(transaction)
        _note(
            transaction, "redriven", self.dead_letter_id, taken, None, by=self.by, at=self.at,
            alert_ids=[one.alert_id for one in accepted if one.alert_id],
        )  # fmt: skip
        return [one for one in accepted if one.status is AcceptStatus.NEW]

    def _revive(self, transaction: Transaction, taken: _Taken, alert_id: AlertId) -> Accepted:
        now = to_us(self.clock.now())
        alert = transaction.row(_REVIVE, wanted=alert_id, now=now)
        if alert is None:
            raise _astray(alert_id)
        transaction.count("pending", 1)
        severity = Severity(alert[3])
        if self.enqueues:
            enqueue(transaction, alert_id, severity.priority, now)
        _note(transaction, "redriven", self.dead_letter_id, taken, alert, by=self.by, at=self.at)
        return Accepted(alert_id=alert_id, status=AcceptStatus.NEW, severity=severity)


@dataclass(frozen=True, slots=True, kw_only=True)
class Discard:
    """The operation behind `DeadLetterLog.discard`."""

    dead_letter_id: str
    by: str
    note: str
    at: int

    def prepare(self) -> None:
        return

    def __call__(self, transaction: Transaction) -> bool:
        taken = _take(transaction, self.dead_letter_id)
        if taken is None:
            return False
        alert = None
        if taken.alert_id is None:
            transaction.count("purged", 1)
        else:
            alert = transaction.row(_DISCARD, wanted=taken.alert_id)
            if alert is None:
                raise _astray(taken.alert_id)
        transaction.count("dead_lettered", -1)
        transaction.count("discarded", 1)
        _note(
            transaction, "discarded", self.dead_letter_id, taken, alert,
            by=self.by, at=self.at, note=self.note,
        )  # fmt: skip
        return True


def _take(transaction: Transaction, dead_letter_id: str) -> _Taken | None:
    found = transaction.row(_TAKE, wanted=dead_letter_id)
    return None if found is None else _Taken(*found)


def _astray(alert_id: str) -> StoreError:
    return StoreError(
        f"alert {alert_id} has a dead letter and is not dead-lettered: nothing was changed; "
        "`triage ledger --full` names what else does not belong together"
    )


def _note(
    transaction: Transaction,
    event: str,
    dead_letter_id: str,
    taken: _Taken,
    alert: tuple[Any, ...] | None,
    *,
    by: str,
    at: int,
    note: str = "",
    alert_ids: Sequence[str] = (),
) -> None:
    """Who did it. `alert` is a row of `_ITS`, None for a message."""
    integration, tenant, fingerprint, _ = alert or (taken.stream, "", dead_letter_id, "")
    raw = {
        "by": storable(" ".join(by.split()), CLOSED_BY_CHARS),
        "note": storable(" ".join(note.split()), NOTE_CHARS),
        "dead_letter_id": dead_letter_id,
        "reason": taken.reason,
        "detail": taken.detail,
        "attempts": taken.attempts,
        "alert_ids": list(alert_ids),
    }
    record_event(
        transaction,
        event,
        integration=integration,
        tenant=tenant,
        fingerprint=fingerprint,
        alert_id=taken.alert_id,
        at=at,
        raw=orjson.dumps(raw),
    )
