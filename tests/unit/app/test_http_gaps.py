"""Gaps over HTTP: lists, one with its cases, and closing."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import partial
from itertools import chain
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest

from tests.contract.gap_world import gap
from tests.contract.store_world import START, arrival, decision
from tests.unit.app.http_world import Bench, all_pages, problem
from tests.unit.app.test_http_reading import ODD_IDS
from triage.adapters.store import Store
from triage.app.http.access import token
from triage.errors import StoreError
from triage.model.gap import CLOSED_BY_CHARS, NOTE_CHARS, Gap
from triage.ports import GapGroup, GapPage

BY_ANN = {"by": "ann", "note": "made a tool"}


async def leave(store: Store, *nodes: str, at: datetime = START, name: str = "f") -> list[Gap]:
    (accepted,) = await store.alerts.accept([arrival(f"{name}{nodes}{at}")])
    assert accepted.alert_id is not None
    gaps = [gap(accepted.alert_id, node, at=at) for node in nodes]
    await store.decisions.commit(decision(accepted.alert_id), {}, (), gaps)
    return gaps


class BrokenGaps:
    """`GapLog` of a store in trouble."""

    async def gap_page(self, *, closed: bool, node: str, cursor: str, limit: int) -> GapPage:
        raise StoreError(f"disk I/O error {closed} {node} {cursor} {limit}")

    async def gap(self, gap_id: str) -> GapGroup | None:
        raise StoreError(f"disk I/O error {gap_id}")

    async def gap_cases(self, gap_id: str, *, limit: int) -> Sequence[Gap]:
        raise StoreError(f"disk I/O error {gap_id} {limit}")

    async def close_gap(self, gap_id: str, *, by: str, note: str, at: datetime) -> bool:
        raise StoreError(f"disk I/O error {gap_id} {by} {note} {at}")

    async def open_gaps(self) -> int:
        raise StoreError("disk I/O error")


# --- reading --------------------------------------------------------------------------------------


async def test_a_gap_is_told_with_its_cases(tmp_path: Path) -> None:
    async with Bench(folder=tmp_path).serving() as (client, store):
        (first,) = await leave(store, "rc_logs", name="a")
        (second,) = await leave(store, "rc_logs", at=START.replace(hour=13), name="b")
        listed = (await client.get("/api/v1/gaps")).json()
        one = (await client.get(f"/api/v1/gaps/{first.gap_id}")).json()
        newest = (await client.get(f"/api/v1/gaps/{first.gap_id}?limit=1")).json()

    cases = one.pop("cases")
    assert listed == {"gaps": [one], "cursor": ""}
    assert one == {
        "gap_id": first.gap_id,
        "node": "rc_logs",
        "reason": "tool_raised",
        "tool_version": 3,
        "tool_sha256": first.tool_sha256,
        "count": 2,
        "first_at": "2026-03-01T12:00:00+00:00",
        "last_at": "2026-03-01T13:00:00+00:00",
        "closed_at": None,
        "closed_by": "",
        "note": "",
        "latest": {
            "alert_id": second.alert_id,
            "at": "2026-03-01T13:00:00+00:00",
            "needed": "Is rc_logs so?",
            "missing": first.missing,
            "alternatives": ["fallback: none is configured"],
            "impact": "the node failed and the decision escalates",
            "evidence": ["d1", "d2"],
        },
    }
    assert cases == [
        one["latest"],
        {**one["latest"], "alert_id": first.alert_id, "at": one["first_at"]},
    ]
    assert newest["cases"] == cases[:1]
    assert newest["count"] == 2


pages = partial(all_pages, path="/api/v1/gaps", of="gaps", shown=itemgetter("node"))


async def test_pages_are_newest_first_and_can_be_narrowed(tmp_path: Path) -> None:
    async with Bench(folder=tmp_path).serving() as (client, store):
        for number in range(4):
            await leave(store, f"n{number}", at=START.replace(minute=number))
        (last,) = await leave(store, "n4", at=START.replace(minute=4))
        found = await pages(client, "limit=2")
        assert [len(page) for page in found] == [2, 2, 1]
        assert list(chain(*found)) == ["n4", "n3", "n2", "n1", "n0"]
        assert await pages(client, "node=n2") == [["n2"]]
        await client.post(f"/api/v1/gaps/{last.gap_id}/close", json=BY_ANN)
        for yes in ("1", "true", "True"):
            assert await pages(client, f"closed={yes}") == [["n4"]]
        for no in ("", "0", "false"):
            assert await pages(client, f"closed={no}&limit=9") == [["n3", "n2", "n1", "n0"]]
        assert await pages(client, "closed=1&node=n2") == [[]]


@pytest.mark.parametrize(
    ("query", "named"),
    [
        ("limit=0", "limit"),
        ("limit=1001", "limit"),
        ("limit=" + "9" * 5000, "limit"),
        ("limit=%C2%B2", "limit"),
        ("closed=maybe", "closed"),
        ("cursor=x", "cursor"),
        ("cursor=%F0%9F%98%80", "cursor"),
    ],
)
async def test_a_parameter_that_means_nothing_is_named(
    tmp_path: Path, query: str, named: str
) -> None:
    async with Bench(folder=tmp_path).serving() as (client, _):
        response = await client.get(f"/api/v1/gaps?{query}")
    assert response.status_code == 400
    assert named in problem(response)["problem"]


async def test_a_cursor_of_the_other_list_is_refused(tmp_path: Path) -> None:
    async with Bench(folder=tmp_path).serving() as (client, store):
        await leave(store, "a", "b")
        cursor = (await client.get("/api/v1/gaps?limit=1")).json()["cursor"]
        refused = await client.get(f"/api/v1/gaps?closed=1&cursor={cursor}")
    assert refused.status_code == 400
    assert "not a cursor of closed gaps" in problem(refused)["problem"]


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_an_id_of_any_kind_is_only_not_found(tmp_path: Path, method: str) -> None:
    async with Bench(folder=tmp_path).serving() as (client, _):
        for odd in ODD_IDS:
            if method == "GET":
                response = await client.get(f"/api/v1/gaps/{odd}")
            else:
                response = await client.post(f"/api/v1/gaps/{odd}/close", json=BY_ANN)
            assert response.status_code == 404, odd
            problem(response)


# --- closing --------------------------------------------------------------------------------------


async def test_a_gap_is_closed_once_and_says_by_whom(tmp_path: Path) -> None:
    bench = Bench(folder=tmp_path)
    async with bench.serving() as (client, store):
        (left,) = await leave(store, "rc_logs")
        bench.clock.advance(60)
        where = f"/api/v1/gaps/{left.gap_id}/close"
        closed = await client.post(where, json=BY_ANN)
        again = await client.post(where, json={"by": "bob"})
        assert (await client.get(where)).status_code == 405
        assert await store.gaps.open_gaps() == 0
    assert closed.status_code == 200
    document = closed.json()
    assert (document["closed_by"], document["note"]) == ("ann", "made a tool")
    assert document["closed_at"] == bench.clock.now().isoformat()
    assert document["count"] == 1
    assert again.status_code == 409
    assert "closed already: by ann" in problem(again)["problem"]


@pytest.mark.parametrize(
    ("body", "named"),
    [
        (b"", "not JSON"),
        (b"rubbish", "not JSON"),
        (b"[]", "must be"),
        (b'"ann"', "must be"),
        (b'{"by": "ann", "why": "x"}', "must be"),
        (b"{}", "by is missing"),
        (b'{"by": "  "}', "by is missing"),
        (b'{"by": 7}', "by must be text"),
        (b'{"by": null}', "by must be text"),
        (b'{"by": "ann", "note": ["x"]}', "note must be text"),
        (b'{"by": "\\ud800"}', "not JSON"),
        (b'{"by": "' + b"x" * (CLOSED_BY_CHARS + 1) + b'"}', "by must be text of at most"),
        (
            b'{"by": "ann", "note": "' + b"x" * (NOTE_CHARS + 1) + b'"}',
            "note must be text of at most",
        ),
    ],
)
async def test_a_body_that_means_nothing_closes_nothing(
    tmp_path: Path, body: bytes, named: str
) -> None:
    async with Bench(folder=tmp_path).serving() as (client, store):
        (left,) = await leave(store, "rc_logs")
        response = await client.post(f"/api/v1/gaps/{left.gap_id}/close", content=body)
        assert await store.gaps.open_gaps() == 1
    assert response.status_code == 400
    assert named in problem(response)["problem"]


async def test_a_body_without_an_end_is_not_read(tmp_path: Path) -> None:
    async with Bench(folder=tmp_path).serving() as (client, store):
        (left,) = await leave(store, "rc_logs")
        body = b'{"by": "' + b"x" * 1_000_000 + b'"}'
        response = await client.post(f"/api/v1/gaps/{left.gap_id}/close", content=body)
    assert response.status_code == 413


async def test_the_token_says_who_when_the_body_does_not(tmp_path: Path) -> None:
    tokens = (token("boss", "secret", ["admin"]),)
    async with Bench(folder=tmp_path, tokens=tokens).serving() as (client, store):
        (left,) = await leave(store, "rc_logs")
        where = f"/api/v1/gaps/{left.gap_id}/close"
        headers = {"authorization": "Bearer secret"}
        closed = await client.post(where, json={}, headers=headers)
    assert closed.json()["closed_by"] == "boss"


# --- trouble --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/api/v1/gaps"), ("GET", "/api/v1/gaps/x"), ("POST", "/api/v1/gaps/x/close")],
)
async def test_a_store_in_trouble_is_a_503(tmp_path: Path, method: str, path: str) -> None:
    body: dict[str, Any] = {"json": BY_ANN} if method == "POST" else {}
    async with Bench(folder=tmp_path, gaps=BrokenGaps()).serving() as (client, _):
        response = await client.request(method, path, **body)
    assert response.status_code == 503
    assert response.headers["retry-after"] == "1"
    assert "disk I/O error" in problem(response)["problem"]


async def test_open_gaps_are_a_figure_of_the_metrics_page(tmp_path: Path) -> None:
    async with Bench(folder=tmp_path).serving() as (client, store):
        left, _ = await leave(store, "rc_logs", "rc_disk")
        for open_gaps in (2, 1):
            page = (await client.get("/metrics")).text
            assert f"triage_gaps_open {open_gaps}.0\n" in page
            await client.post(f"/api/v1/gaps/{left.gap_id}/close", json=BY_ANN)


async def test_the_metrics_page_outlives_a_store_that_counts_no_gaps(tmp_path: Path) -> None:
    async with Bench(folder=tmp_path, gaps=BrokenGaps()).serving() as (client, _):
        response = await client.get("/metrics")
    assert response.status_code == 200
    assert "triage_store_up 0.0\n" in response.text
