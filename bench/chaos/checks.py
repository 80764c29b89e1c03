"""What must be true when all is quiet again. Pure: facts in, findings out, so that it can be fed
what never happened."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bench.chaos.facts import StoreRows
from bench.chaos.journal import Promise
from bench.chaos.messages import FIRING, RESOLVE
from bench.chaos.receiver import Manner, Receipt

KEY_SUFFIX = ":decision"
SHOWN = 50  # ids of one kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """`sent` are the ids of every message that ever left, answered or not. `unsent` messages never
    got a 2xx, `rejected` ones got another answer than to come back. `limping` says which replica is
    not well and why; `unready` which outage no readiness showed."""

    promises: Sequence[Promise]
    sent: Collection[str]
    rows: StoreRows
    receipts: Sequence[Receipt]
    ledger: Mapping[str, Any]
    unsent: int = 0
    rejected: Sequence[str] = ()
    limping: Sequence[str] = ()
    unready: Sequence[str] = ()


@dataclass(slots=True)
class Findings:
    """Each list holds ids, or sentences. `ok` when all are empty."""

    missing: list[str] = field(default_factory=list)
    """Promised by a 2xx, and neither decided nor dead-lettered."""
    duplicates: list[str] = field(default_factory=list)
    """Told twice in different words, decided twice, told otherwise than decided, or never sent."""
    dead_lettered: list[str] = field(default_factory=list)
    """There is nothing wrong with any of these alerts: attempts were used up by deaths."""
    unbalanced: list[str] = field(default_factory=list)
    undelivered: list[str] = field(default_factory=list)
    misnamed: list[str] = field(default_factory=list)
    acted: list[str] = field(default_factory=list)
    """Not decided `resolved`, although the resolve was accepted before the firing left."""
    forged: list[str] = field(default_factory=list)
    unsent: list[str] = field(default_factory=list)
    limping: list[str] = field(default_factory=list)
    unready: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return not any(self.document().values())

    def document(self) -> dict[str, list[str]]:
        return {name: getattr(self, name) for name in self.__slots__}


def check(facts: Facts) -> Findings:
    found = Findings()
    _decisions(facts, found)
    _messages(facts, found)
    _ledger(facts, found)
    _identity(facts, found)
    found.unsent += facts.rejected
    if facts.unsent:
        found.unsent.append(f"{facts.unsent} messages had no 2xx long after all was well again")
    found.limping += facts.limping
    found.unready += facts.unready
    return found


def _decisions(facts: Facts, found: Findings) -> None:
    promised = {alert_id for promise in facts.promises for alert_id in promise.ids}
    counts = Counter(one.alert_id for one in facts.rows.decisions)
    for alert_id in sorted(promised):
        row = facts.rows.alerts.get(alert_id)
        if row is not None and row.status == "dead_lettered":
            found.dead_lettered.append(alert_id)
        elif row is None or not counts[alert_id]:
            found.missing.append(alert_id)
    found.duplicates += [
        f"{alert_id}: {count} decisions are stored"
        for alert_id, count in sorted(counts.items())
        if count > 1
    ]
    found.duplicates += [
        f"{alert_id}: stored, and nobody sent it"
        for alert_id in sorted(facts.rows.alerts.keys() - set(facts.sent))
    ]
    resolved_at: dict[str, float] = {}
    left_at: dict[str, float] = {}
    for promise in facts.promises:
        for alert_id in promise.ids:
            if promise.kind == RESOLVE:
                resolved_at[alert_id] = min(resolved_at.get(alert_id, promise.at), promise.at)
            elif promise.kind == FIRING:
                left_at[alert_id] = min(left_at.get(alert_id, promise.left_at), promise.left_at)
    found.acted += [
        f"{one.alert_id}: {one.outcome}"
        for one in facts.rows.decisions
        if one.outcome != "resolved"
        and one.alert_id in resolved_at
        and resolved_at[one.alert_id] < left_at.get(one.alert_id, 0.0)
    ]


def _messages(facts: Facts, found: Findings) -> None:
    decided = {one.alert_id: one.sha256 for one in facts.rows.decisions}
    bodies: dict[str, set[str]] = {}
    taken: set[str] = set()
    for receipt in facts.receipts:
        bodies.setdefault(receipt.key, set()).add(receipt.sha256)
        if receipt.manner is Manner.TAKEN:
            taken.add(receipt.key)
        if not receipt.signed:
            found.forged.append(receipt.key)
        if receipt.key != receipt.alert_id + KEY_SUFFIX:
            found.duplicates.append(f"{receipt.key}: its body is about {receipt.alert_id!r}")
    for key, different in sorted(bodies.items()):
        alert_id = key.removesuffix(KEY_SUFFIX)
        if len(different) > 1:
            found.duplicates.append(f"{key}: came with {len(different)} bodies")
        elif alert_id not in facts.sent:
            found.duplicates.append(f"{key}: nobody sent such an alert")
        elif alert_id not in decided:
            found.duplicates.append(f"{key}: told, and no decision is stored")
        elif {decided[alert_id]} != different:
            found.duplicates.append(f"{key}: told otherwise than the stored decision has it")
    found.undelivered += sorted(
        alert_id for alert_id in decided if alert_id + KEY_SUFFIX not in taken
    )


def _ledger(facts: Facts, found: Findings) -> None:
    ledger, rows = facts.ledger, facts.rows
    if not ledger["balances"]:
        found.unbalanced.append(f"the ledger says so itself: {dict(ledger)}")
    found.unbalanced += [f"{alert_id}: unaccounted for" for alert_id in ledger["unaccounted"]]
    statuses = Counter(one.status for one in rows.alerts.values())
    counted = {
        "accepted": len(rows.alerts) + rows.buried,
        "decided": statuses["decided"],
        "pending": statuses["pending"],
        "dead_lettered": statuses["dead_lettered"] + rows.buried,
    }
    found.unbalanced += [
        f"{name}: {ledger[name]} in the ledger, {count} in the store's rows"
        for name, count in counted.items()
        if ledger[name] != count
    ]
    if statuses["decided"] != len(rows.decisions):
        found.unbalanced.append(
            f"{statuses['decided']} alerts are decided, and there are {len(rows.decisions)}"
            " decisions"
        )
    for name in ("pending", "outbox_pending", "outbox_given_up"):
        if ledger[name]:
            found.unbalanced.append(f"{name}: {ledger[name]} when all should be done")


def _identity(facts: Facts, found: Findings) -> None:
    """A 2xx that names other alerts than the message's, or too few of them."""
    found.misnamed += [
        f"message {promise.message}: answered with {list(promise.ids)}, is {list(promise.expected)}"
        for promise in facts.promises
        if promise.ids != promise.expected
    ]
