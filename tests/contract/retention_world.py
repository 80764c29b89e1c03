"""A store that was served from, for the tests of retention."""

from __future__ import annotations

from typing import Any

from tests.contract.store_world import arrival, decision
from triage.adapters.store import Store
from triage.model.alert import Accepted, AlertId, Arrival
from triage.ports import DecisionFilter, Message

DAY_S = 86_400.0


async def one(store: Store, what: Arrival) -> Accepted:
    [answer] = await store.alerts.accept([what])
    return answer


async def decided(
    store: Store, fingerprint: str, messages: tuple[Message, ...] = (), **what: Any
) -> AlertId:
    answer = await one(store, arrival(fingerprint, **what))
    assert answer.alert_id is not None
    await store.decisions.commit(decision(answer.alert_id), {}, messages)
    return answer.alert_id


async def balance(store: Store) -> tuple[int, int, int]:
    """Accepted, decided, purged; after a full count that balances."""
    ledger = await store.ledger.ledger(full=True)
    assert ledger.balances, ledger
    assert ledger == await store.ledger.ledger()
    return ledger.accepted, ledger.decided, ledger.purged


async def kept(store: Store) -> set[str]:
    page = await store.decisions.page(DecisionFilter(), cursor="", limit=1000)
    assert not page.cursor
    return {head["alert_id"] for head in page.decisions}
