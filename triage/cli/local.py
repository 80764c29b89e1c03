"""Reads a store, and closes gaps and deals with dead letters in it, beside daemons that may be
serving from it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import Select, bindparam, select

from triage.adapters.store import Store
from triage.adapters.store.schema import ALERTS, DEAD_LETTERS, GAPS
from triage.adapters.store.transaction import Transaction
from triage.app.dead_letters import Redrive, dead_letter_document, whole_document
from triage.app.exits import Exit
from triage.app.field_maps import field_maps
from triage.app.findings import finding_document, finding_page
from triage.app.gaps import group_document, not_open
from triage.app.ledger import ledger_document
from triage.app.settings import Settings
from triage.app.shadows import chosen, comparison_document, not_compared, tally_document
from triage.cli.exit_codes import CommandFailed
from triage.cli.store_settings import store_settings
from triage.clock import SystemClock
from triage.model.alert import AlertId
from triage.ports import Compared, DecisionFilter, Queue

_SHOWN_IDS = 5
_AFTER_HEX = "g"  # sorts after every hexadecimal digit

_IDS, _GAP_IDS, _DEAD_LETTER_IDS = (
    select(column)
    .where(column >= bindparam("first"), column < bindparam("after"))
    .order_by(column)
    .limit(_SHOWN_IDS)
    for column in (ALERTS.c.alert_id, GAPS.c.gap_id, DEAD_LETTERS.c.dead_letter_id)
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalReader:
    """See `reading.Opened`. `queue` is told what is to be decided again."""

    store: Store
    settings: Settings
    queue: Queue

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

    async def labels(self, alert_id: str) -> Mapping[str, str] | None:
        stored = await self.store.alerts.stored(AlertId(alert_id))
        return None if stored is None else stored.alert.labels

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

    async def dead_letter_page(
        self, *, reason: str, cursor: str, limit: int
    ) -> tuple[list[Mapping[str, Any]], str]:
        page = await self.store.dead_letters.dead_letter_page(
            reason=reason, cursor=cursor, limit=limit
        )
        return [dead_letter_document(letter) for letter in page.dead_letters], page.cursor

    async def dead_letter(self, dead_letter_id: str) -> Mapping[str, Any] | None:
        letter = await self.store.dead_letters.dead_letter(dead_letter_id)
        return None if letter is None else whole_document(letter)

    async def dead_letter_ids(self, prefix: str) -> list[str]:
        return await self._beginning(_DEAD_LETTER_IDS, prefix)

    async def redrive(self, dead_letter_id: str, *, by: str) -> Mapping[str, Any] | None:
        redrive = Redrive(
            dead_letters=self.store.dead_letters,
            queue=self.queue,
            clock=SystemClock(),
            field_map=field_maps(self.settings.intake).get,
            streams=self.settings.streams,
        )
        redriven = await redrive(dead_letter_id, by=by)
        return None if redriven is None else redriven.document(dead_letter_id)

    async def discard(self, dead_letter_id: str, *, by: str, note: str) -> bool:
        return await self.store.dead_letters.discard(
            dead_letter_id, by=by, note=note, at=SystemClock().now()
        )

    async def finding_page(
        self, *, node: str, cursor: str, limit: int
    ) -> tuple[list[Mapping[str, Any]], str]:
        found = await self.store.watch.findings(node=node)
        page, following = finding_page(found, kind="", cursor=cursor, limit=limit)
        return [finding_document(one) for one in page], following

    async def shadows(self, node: str) -> list[Mapping[str, Any]]:
        return [tally_document(tally) for tally in await self.store.shadows.tallies(node)]

    async def comparison_page(
        self, node: str, *, shadow: int, active: int, result: str, cursor: str, limit: int
    ) -> tuple[list[Mapping[str, Any]], str]:
        tallies = await self.store.shadows.tallies(node)
        tally = chosen(tallies, shadow=shadow, active=active)
        if tally is None:
            raise CommandFailed(not_compared(node, tallies), Exit.FINDINGS)
        page = await self.store.shadows.comparison_page(
            tally.pair,
            result=Compared(result) if result else None,
            cursor=cursor,
            limit=limit,
        )
        return [comparison_document(one) for one in page.comparisons], page.cursor

    async def _beginning(self, statement: Select[Any], prefix: str) -> list[str]:
        def load(transaction: Transaction) -> list[str]:
            found = transaction.rows(statement, first=prefix, after=prefix + _AFTER_HEX)
            return [row[0] for row in found]

        return await self.store.decisions.readers.run(load)


@asynccontextmanager
async def local_reader(config: Path, *, changes: bool = False) -> AsyncIterator[LocalReader]:
    """With `changes`, one that can close gaps, redrive and discard. Raises ConfigError for a
    configuration or store that cannot be read."""
    settings = store_settings(config, with_queue=changes)
    clock = SystemClock()
    async with AsyncExitStack() as stack:
        store = await Store.open(
            settings.store.address,
            clock=clock,
            exclusive=False,
            changes=changes,
            embedded_queue=settings.queue.is_embedded,
        )
        stack.push_async_callback(store.close)
        queue: Queue = store.queue
        if changes and not settings.queue.is_embedded:
            # Here: it brings the broker's library.
            from triage.app.deliveries import make_queue

            lease_s = settings.engine.lease_s
            queue = make_queue(settings.queue, lease_s=lease_s, clock=clock) or store.queue
            stack.push_async_callback(queue.close)
        yield LocalReader(store=store, settings=settings, queue=queue)
