"""Reads a store's file, beside a daemon that may be serving from it."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import bindparam, select

from triage.adapters.store import Store
from triage.adapters.store.schema import ALERTS
from triage.adapters.store.transaction import Transaction
from triage.app.ledger import ledger_document
from triage.app.settings import Settings
from triage.clock import SystemClock
from triage.model.alert import AlertId
from triage.ports import DecisionFilter

_SHOWN_IDS = 5
_AFTER_HEX = "g"  # sorts after every hexadecimal digit

_IDS = (
    select(ALERTS.c.alert_id)
    .where(ALERTS.c.alert_id >= bindparam("first"), ALERTS.c.alert_id < bindparam("after"))
    .order_by(ALERTS.c.alert_id)
    .limit(_SHOWN_IDS)
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalReader:
    """See `reading.Reader`."""

    store: Store

    async def page(
        self, wanted: DecisionFilter, *, cursor: str, limit: int
    ) -> tuple[list[Mapping[str, Any]], str]:
        page = await self.store.decisions.page(wanted, cursor=cursor, limit=limit)
        return list(page.decisions), page.cursor

    async def decision(self, alert_id: str) -> Mapping[str, Any] | None:
        return await self.store.decisions.get(AlertId(alert_id))

    async def ids(self, prefix: str) -> list[str]:
        def load(transaction: Transaction) -> list[str]:
            found = transaction.rows(_IDS, first=prefix, after=prefix + _AFTER_HEX)
            return [row[0] for row in found]

        return await self.store.decisions.readers.run(load)

    async def evidence(self, answer_sha256: str) -> bytes | None:
        return await self.store.decisions.evidence(answer_sha256)

    async def ledger(self, *, full: bool) -> Mapping[str, Any]:
        return ledger_document(await self.store.ledger.ledger(full=full))


@asynccontextmanager
async def local_reader(config: Path) -> AsyncIterator[LocalReader]:
    """Raises ConfigError for a configuration or store that cannot be read."""
    settings = Settings.load(config, os.environ, read_secrets=False)
    store = await Store.open(settings.store.url, clock=SystemClock(), exclusive=False)
    try:
        yield LocalReader(store=store)
    finally:
        await store.close()
