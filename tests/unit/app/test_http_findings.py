"""Findings over HTTP: lists, pages, and who may read them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path

import httpx
import pytest

from tests.contract.store_world import START
from tests.unit.app.http_world import Bench, problem
from triage.app.http.access import token
from triage.errors import StoreError
from triage.model.decision import NodeId
from triage.ports import WatchFinding, WatchKind
from triage.watching.findings import finding


def found(number: int, kind: WatchKind = WatchKind.NULLS, node: str = "rc_logs") -> WatchFinding:
    at = START + timedelta(minutes=number)
    return finding(kind, NodeId(node), f"metrics m{number}: value", "ab" * 32, "60 % nulls", at=at)


class BrokenLog:
    """`WatchLog` of a store in trouble."""

    async def found(self, findings: Sequence[WatchFinding]) -> None:
        raise StoreError("disk I/O error")

    async def ended(self, finding_ids: Sequence[str], *, at: datetime) -> None:
        raise StoreError("disk I/O error")

    async def findings(self, *, node: str = "", closed: bool = False) -> Sequence[WatchFinding]:
        raise StoreError(f"disk I/O error {node} {closed}")

    async def save_state(self, watcher: str, states: Mapping[NodeId, bytes]) -> None:
        raise StoreError("disk I/O error")

    async def load_state(self, watcher: str) -> Mapping[NodeId, bytes]:
        raise StoreError("disk I/O error")


async def test_open_findings_are_told_newest_first_with_what_to_do(tmp_path: Path) -> None:
    async with Bench(folder=tmp_path).serving() as (client, store):
        await store.watch.found([found(1), found(2)])
        reply = await client.get("/api/v1/findings")
    assert reply.status_code == 200
    document = reply.json()
    assert document["cursor"] == ""
    newest, oldest = document["findings"]
    assert newest["first_at"] > oldest["first_at"]
    assert newest["kind"] == "nulls"
    assert newest["node"] == "rc_logs"
    assert newest["closed_at"] is None
    assert newest["next"]


async def test_closed_ones_are_a_list_of_their_own(tmp_path: Path) -> None:
    async with Bench(folder=tmp_path).serving() as (client, store):
        await store.watch.found([found(1), found(2)])
        await store.watch.ended([found(1).finding_id], at=START + timedelta(hours=1))
        still = (await client.get("/api/v1/findings")).json()["findings"]
        closed = (await client.get("/api/v1/findings?closed=true")).json()["findings"]
    assert [one["subject"] for one in still] == ["metrics m2: value"]
    assert [one["closed_at"] is not None for one in closed] == [True]


async def test_by_node_and_by_kind(tmp_path: Path) -> None:
    dead = WatchKind.SOURCE_DEAD
    async with Bench(folder=tmp_path).serving() as (client, store):
        await store.watch.found([found(1), found(2, dead), found(3, node="obs_other")])
        of_node = (await client.get("/api/v1/findings?node=obs_other")).json()["findings"]
        of_kind = (await client.get("/api/v1/findings?kind=source_dead")).json()["findings"]
    assert [one["node"] for one in of_node] == ["obs_other"]
    assert [one["kind"] for one in of_kind] == ["source_dead"]


async def test_pages_give_each_finding_once(tmp_path: Path) -> None:
    async with Bench(folder=tmp_path).serving() as (client, store):
        await store.watch.found([found(number) for number in range(7)])
        seen, cursor, pages = [], "", 0
        while pages == 0 or cursor:
            page = (
                await client.get("/api/v1/findings", params={"limit": 3, "cursor": cursor})
            ).json()
            seen += [one["finding_id"] for one in page["findings"]]
            cursor, pages = page["cursor"], pages + 1
    assert pages == 3
    assert len(set(seen)) == len(seen) == 7


@pytest.mark.parametrize(
    "query",
    ["closed=maybe", "kind=rumours", "limit=0", "limit=-1", "limit=99999", "cursor=gone"],
)
async def test_what_cannot_be_asked_is_refused(tmp_path: Path, query: str) -> None:
    async with Bench(folder=tmp_path).serving() as (client, store):
        await store.watch.found([found(1)])
        reply = await client.get(f"/api/v1/findings?{query}")
    assert reply.status_code == 400
    assert problem(reply)


async def test_a_store_in_trouble_is_told(tmp_path: Path) -> None:
    async with Bench(folder=tmp_path, findings=BrokenLog()).serving() as (client, _):
        reply = await client.get("/api/v1/findings")
    assert reply.status_code == 503


async def test_reading_needs_the_scope(tmp_path: Path) -> None:
    tokens = (token("reader", "r" * 20, ["read"]), token("sender", "s" * 20, ["ingest"]))

    async def status(client: httpx.AsyncClient, secret: str) -> int:
        headers = {"Authorization": f"Bearer {secret}"} if secret else {}
        return (await client.get("/api/v1/findings", headers=headers)).status_code

    async with Bench(folder=tmp_path, tokens=tokens).serving() as (client, _):
        assert [await status(client, s) for s in ("r" * 20, "s" * 20, "")] == [200, 403, 401]
