"""Reads a store's file, and closes gaps in it, beside a daemon that may be serving from it."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import Select, bindparam, select

from triage.adapters.store import Store
from triage.adapters.store.schema import ALERTS, GAPS
from triage.adapters.store.transaction import Transaction
from triage.app.exits import Exit
from triage.app.gaps import group_document, not_open
from triage.app.ledger import ledger_document
from triage.app.settings import Settings
from triage.cli.exit_codes import CommandFailed
from triage.clock import SystemClock
from triage.model.alert import AlertId
from triage.ports import DecisionFilter

_SHOWN_IDS = 5
_AFTER_HEX = "g"  # sorts after every hexadecimal digit

_IDS, _GAP_IDS = (
    select(column)
    .where(column >= bindparam("first"), column < bindparam("after"))
    .order_by(column)
    .limit(_SHOWN_IDS)
    for column in (ALERTS.c.alert_id, GAPS.c.gap_id)
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalReader:
    """See `reading.Reader` and `reading.GapReader`."""

    store: Store

    async def page(
        self, wanted: DecisionFilter, *, cursor: str, limit: int
    ) -> tuple[list[Mapping[str, Any]], str]:
        page = await self.store.decisions.page(wanted, cursor=cursor, limit=limit)
        return list(page.decisions), page.cursor

    async def decision(self, alert_id: str) -> Mapping[str, Any] | None:
        return await self.store.decisions.get(AlertId(alert_id))

    async def ids(self, prefix: str) -> list[str]:
        return await self._beginning(_IDS, prefix)

    async def evidence(self, answer_sha256: str) -> bytes | None:
        return await self.store.decisions.evidence(answer_sha256)

    async def ledger(self, *, full: bool) -> Mapping[str, Any]:
        return ledger_document(await self.store.ledger.ledger(full=full))

    async def gap_page(
        self, *, closed: bool, node: str, cursor: str, limit: int
    ) -> tuple[list[Mapping[str, Any]], str]:
        page = await self.store.gaps.gap_page(closed=closed, node=node, cursor=cursor, limit=limit)
        return [group_document(group) for group in page.gaps], page.cursor

    async def gap(self, gap_id: str, *, cases: int) -> Mapping[str, Any] | None:
        group = await self.store.gaps.gap(gap_id)
        if group is None:
            return None
        return group_document(group, await self.store.gaps.gap_cases(gap_id, limit=cases))

    async def gap_ids(self, prefix: str) -> list[str]:
        return await self._beginning(_GAP_IDS, prefix)

    async def close_gap(self, gap_id: str, *, by: str, note: str) -> None:
        gaps = self.store.gaps
        if not await gaps.close_gap(gap_id, by=by, note=note, at=SystemClock().now()):
            raise CommandFailed(not_open(gap_id, await gaps.gap(gap_id)), Exit.FINDINGS)

    async def _beginning(self, statement: Select[Any], prefix: str) -> list[str]:
        def load(transaction: Transaction) -> list[str]:
            found = transaction.rows(statement, first=prefix, after=prefix + _AFTER_HEX)
            return [row[0] for row in found]

        return await self.store.decisions.readers.run(load)


@asynccontextmanager
async def local_reader(config: Path, *, closes_gaps: bool = False) -> AsyncIterator[LocalReader]:
    """Raises ConfigError for a configuration or store that cannot be read."""
    settings = Settings.load(config, os.environ, read_secrets=False)
    store = await Store.open(
        settings.store.url, clock=SystemClock(), exclusive=False, closes_gaps=closes_gaps
    )
    try:
        yield LocalReader(store=store)
    finally:
        await store.close()
