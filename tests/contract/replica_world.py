"""What the tests of several replicas on PostgreSQL share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from tests.contract.conftest import StoreMaker
from tests.contract.store_world import arrival
from tests.servers import wait_until
from triage.adapters.store import Store
from triage.model.alert import AlertId

WITHIN_S = 30.0  # what must happen at all, on a loaded machine


async def accepted(store: Store, fingerprint: str = "f") -> AlertId:
    [answer] = await store.alerts.accept([arrival(fingerprint)])
    assert answer.alert_id is not None
    return answer.alert_id


async def becomes(true: Callable[[], object], what: str) -> None:
    await asyncio.to_thread(wait_until, lambda: bool(true()), what=what, within_s=WITHIN_S)


def waits_for_a_lock(make_store: StoreMaker) -> bool:
    return bool(make_store.sql("SELECT 1 FROM pg_locks WHERE NOT granted"))
