"""Dead letters for the tests of stores."""

from __future__ import annotations

from tests.contract.store_world import START, arrival
from triage.adapters.store import Store
from triage.model.alert import AlertId, Severity
from triage.ports import DeadLetter


def message(dead_letter_id: str = "m1", *, reason: str = "payload") -> DeadLetter:
    return DeadLetter(
        dead_letter_id=dead_letter_id,
        stream="orders",
        format="native",
        payload=b"\x00\xff{",
        headers={"x-trace": "ü"},
        reason=reason,
        detail="no JSON",
        attempts=1,
        at=START,
    )


async def dead_alert(
    store: Store, fingerprint: str = "f", severity: Severity = Severity.CRITICAL
) -> AlertId:
    """After two attempts."""
    [answer] = await store.alerts.accept([arrival(fingerprint, severity=severity)])
    assert answer.alert_id is not None
    [delivery] = await store.queue.receive(limit=1, wait_s=0)
    for _ in range(2):
        await store.alerts.begin_attempt(answer.alert_id)
    assert await store.alerts.dead_letter(answer.alert_id, "attempts_used_up", "2 attempts")
    await store.queue.settle(acked=[delivery])
    return answer.alert_id


async def balance(store: Store) -> tuple[int, int, int, int]:
    """Accepted, pending, dead-lettered, discarded; after a full count that balances."""
    ledger = await store.ledger.ledger(full=True)
    assert ledger.balances, ledger
    assert ledger == await store.ledger.ledger()
    return ledger.accepted, ledger.pending, ledger.dead_lettered, ledger.discarded
