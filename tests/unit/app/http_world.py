"""The HTTP interface over a real store, without a socket."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from tests.contract.store_world import HandClock, migrated
from triage.adapters.store import Store
from triage.app.delivery_sections import StreamSection
from triage.app.field_maps import field_maps
from triage.app.http.access import Gate, RequestLimit, Token
from triage.app.http.application import http_application
from triage.app.http.dead_letters import DeadLetterServices
from triage.app.http.decisions import ReadServices
from triage.app.http.findings import FindingServices
from triage.app.http.gaps import GapServices
from triage.app.http.intake import IntakeServices
from triage.app.http.operations import OperationServices
from triage.app.http.shadows import ShadowServices
from triage.app.sections import IntakeSection
from triage.intake.request import Parsed
from triage.ports import (
    AlertLog,
    DeadLetterLog,
    DecisionLog,
    GapLog,
    LedgerView,
    Queue,
    ShadowLog,
    WatchLog,
)
from triage.telemetry.metrics import Metrics

NATIVE = {"alarm": "DiskFull", "fired_at": "2026-03-01T11:59:00Z", "site": "north", "id": "1"}


@dataclass(slots=True, kw_only=True)
class Bench:
    """What a test may put in place of the real thing."""

    folder: Path
    tokens: tuple[Token, ...] = ()
    max_body_bytes: int = 4096
    max_requests: int = 10
    max_pending: int = 1000
    draining: bool = False
    ready: dict[str, Any] = field(default_factory=lambda: {"ready": True})
    clock: HandClock = field(default_factory=HandClock)
    reloading: Callable[[], Awaitable[Mapping[str, Any]]] | None = None
    verifying: Callable[[Parsed], Awaitable[None]] | None = None
    confirming: Callable[[Parsed], Awaitable[Mapping[str, Any]]] | None = None
    alerts: AlertLog | None = None
    queue: Queue | None = None
    decisions: DecisionLog | None = None
    ledger: LedgerView | None = None
    gaps: GapLog | None = None
    dead_letters: DeadLetterLog | None = None
    shadows: ShadowLog | None = None
    findings: WatchLog | None = None
    intake: IntakeSection = field(default_factory=IntakeSection)
    streams: Mapping[str, StreamSection] = field(default_factory=dict)
    metrics: Metrics = field(
        default_factory=lambda: Metrics.register(version="test", monotonic=lambda: 0.0)
    )

    @asynccontextmanager
    async def serving(
        self, *, host: str = "127.0.0.1:9797"
    ) -> AsyncIterator[tuple[httpx.AsyncClient, Store]]:
        """A client of the application, and the store beneath it."""
        store = await Store.open(
            migrated(self.folder / "triage.db"), clock=self.clock, max_pending=self.max_pending
        )
        try:
            transport = httpx.ASGITransport(self._application(store), raise_app_exceptions=False)
            async with httpx.AsyncClient(transport=transport, base_url=f"http://{host}") as client:
                yield client, store
        finally:
            await store.close()

    def _application(self, store: Store) -> Any:
        gate = Gate(self.tokens)
        maps = field_maps(self.intake)
        return http_application(
            IntakeServices(
                alerts=self.alerts or store.alerts,
                queue=self.queue or store.queue,
                clock=self.clock,
                gate=gate,
                limit=RequestLimit(self.max_requests),
                max_body_bytes=self.max_body_bytes,
                metrics=self.metrics.intake,
                field_map=maps.get,
                verify=self.verifying or _verified,
                confirm=self.confirming or _confirmed,
                is_draining=lambda: self.draining,
            ),
            ReadServices(
                decisions=self.decisions or store.decisions,
                ledger=self.ledger or store.ledger,
                gate=gate,
            ),
            OperationServices(
                gate=gate,
                metrics=self.metrics,
                ledger=self.ledger or store.ledger,
                gaps=self.gaps or store.gaps,
                clock=self.clock,
                readiness=self._readiness,
                reload=self.reloading or self._reload,
            ),
            GapServices(gaps=self.gaps or store.gaps, gate=gate, clock=self.clock),
            DeadLetterServices(
                dead_letters=self.dead_letters or store.dead_letters,
                queue=self.queue or store.queue,
                field_map=maps.get,
                streams=self.streams,
                gate=gate,
                clock=self.clock,
            ),
            ShadowServices(shadows=self.shadows or store.shadows, gate=gate),
            FindingServices(findings=self.findings or store.watch, gate=gate),
        )

    async def _readiness(self) -> Mapping[str, Any]:
        return self.ready

    async def _reload(self) -> Mapping[str, Any]:
        return {"reloaded": True}


async def _verified(_: Parsed) -> None:
    """Nothing to object."""


async def _confirmed(_: Parsed) -> Mapping[str, Any]:
    return {}


async def all_pages(
    client: httpx.AsyncClient,
    query: str,
    *,
    path: str,
    of: str,
    shown: Callable[[Mapping[str, Any]], str],
) -> list[list[str]]:
    """What is `shown` of each `of`, page by page to the end."""
    found, cursor = [], ""
    for _ in range(100):
        response = await client.get(f"{path}?{query}&cursor={cursor}")
        assert response.status_code == 200, response.text
        found.append([shown(one) for one in response.json()[of]])
        cursor = response.json()["cursor"]
        if not cursor:
            return found
    raise AssertionError("pages without an end")


def problem(response: httpx.Response) -> dict[str, Any]:
    """The reply's `error` object, which every error has."""
    document = response.json()
    assert list(document) == ["error"]
    error: dict[str, Any] = document["error"]
    assert error["status"] == response.status_code
    assert error["problem"]
    return error
