"""Shadows over HTTP: counts with their interval, and pages of what did not agree."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from itertools import chain
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest

from tests.contract.shadow_world import comparison, pair, verdict
from tests.contract.store_world import START
from tests.unit.app.http_world import Bench, all_pages, problem
from tests.unit.app.test_http_reading import ODD_IDS
from triage.app.http.access import token
from triage.errors import StoreError
from triage.ports import Compared, Comparison, ComparisonPage, Pair, Tally

PATH = "/api/v1/shadows"
OF_NODE = f"{PATH}/rc_logs/comparisons"


class BrokenShadows:
    """`ShadowLog` of a store in trouble."""

    async def compared(self, comparisons: Sequence[Comparison]) -> None:
        raise StoreError(f"disk I/O error {comparisons}")

    async def tallies(self, node: str = "") -> Sequence[Tally]:
        raise StoreError(f"disk I/O error {node}")

    async def comparison_page(
        self, pair: Pair, *, result: Compared | None, cursor: str, limit: int
    ) -> ComparisonPage:
        raise StoreError(f"disk I/O error {pair} {result} {cursor} {limit}")


async def test_a_tally_is_told_with_what_it_says(tmp_path: Path) -> None:
    async with Bench(folder=tmp_path).serving() as (client, store):
        agreeing = [comparison(f"a{n}", Compared.AGREES) for n in range(98)]
        others = [comparison(f"d{n}") for n in range(2)]
        dropped = [comparison("x", Compared.DROPPED)] * 3
        await store.shadows.compared([*agreeing, *others, *dropped])
        (found,) = (await client.get(PATH)).json()["shadows"]
        again = (await client.get(f"{PATH}?node=rc_logs")).json()["shadows"]
        none = (await client.get(f"{PATH}?node=other")).json()
    assert again == [found]
    assert none == {"shadows": []}
    low, high = found.pop("interval")
    assert 0.929 < low < 0.931
    assert 0.994 < high < 0.995
    needed = {one["bound"]: one for one in found.pop("needed")}
    assert needed[0.99] == {"bound": 0.99, "comparisons": None, "if_all_agree": 381}
    assert needed[0.95]["comparisons"] == 203
    assert found == {
        "node": "rc_logs",
        "shadow_version": 2,
        "shadow_sha256": "2" * 64,
        "active_version": 1,
        "active_sha256": "1" * 64,
        "counts": {"agrees": 98, "differs": 2, "unrecorded": 0, "failed": 0, "dropped": 3},
        "other_clauses": 0,
        "agree": 98,
        "compared": 100,
        "agreement": 0.98,
        "first_at": START.isoformat(),
        "last_at": START.isoformat(),
    }


async def test_one_that_was_never_compared_has_no_agreement(tmp_path: Path) -> None:
    async with Bench(folder=tmp_path).serving() as (client, store):
        await store.shadows.compared([comparison("x", Compared.DROPPED)])
        (found,) = (await client.get(PATH)).json()["shadows"]
    assert (found["agreement"], found["interval"], found["compared"]) == (None, [0.0, 1.0], 0)
    assert all(one["comparisons"] is None for one in found["needed"])


async def test_a_comparison_is_told_with_both_verdicts(tmp_path: Path) -> None:
    async with Bench(folder=tmp_path).serving() as (client, store):
        other = {**verdict("true"), "clauses": [], "subject": "größer\x00"}
        await store.shadows.compared(
            [
                comparison("a", at=START + timedelta(seconds=2)),
                comparison("b", Compared.FAILED, at=START + timedelta(seconds=1)),
                comparison("c")._replace(shadow=other),
            ]
        )
        first, second, third = (await client.get(OF_NODE)).json()["comparisons"]
    assert first == {
        "node": "rc_logs",
        "shadow_version": 2,
        "shadow_sha256": "2" * 64,
        "active_version": 1,
        "active_sha256": "1" * 64,
        "result": "differs",
        "alert_id": "a",
        "at": "2026-03-01T12:00:02+00:00",
        "site": "north",
        "active": verdict("true"),
        "shadow": verdict("false"),
        "differs_in": ["value"],
        "evidence": ["d1", "d2"],
    }
    assert (second["result"], second["shadow"]["failure"]) == ("failed", "tool_raised")
    assert second["differs_in"] == []
    assert third["differs_in"] == ["clauses"]


pages = partial(all_pages, path=OF_NODE, of="comparisons", shown=itemgetter("alert_id"))


async def test_pages_are_newest_first_and_can_be_narrowed(tmp_path: Path) -> None:
    async with Bench(folder=tmp_path).serving() as (client, store):
        for number in range(5):
            at = START + timedelta(seconds=number)
            result = Compared.FAILED if number == 2 else Compared.DIFFERS
            await store.shadows.compared([comparison(f"a{number}", result, at=at)])
        newer = pair(shadow=3)
        late = START + timedelta(days=1)
        await store.shadows.compared([comparison("new", of=newer, at=late)])

        assert await pages(client, "") == [["new"]]
        assert await pages(client, "shadow=3&active=1") == [["new"]]
        found = await pages(client, "shadow=2&limit=2")
        assert [len(page) for page in found] == [2, 2, 1]
        assert list(chain(*found)) == ["a4", "a3", "a2", "a1", "a0"]
        assert await pages(client, "shadow=2&result=failed") == [["a2"]]
        assert await pages(client, "shadow=2&result=unrecorded") == [[]]


async def test_versions_that_were_not_compared_are_told_apart(tmp_path: Path) -> None:
    async with Bench(folder=tmp_path).serving() as (client, store):
        await store.shadows.compared([comparison("a")])
        wrong = await client.get(f"{OF_NODE}?shadow=9")
        nobody = await client.get(f"{PATH}/other/comparisons")
        for odd in ODD_IDS:
            response = await client.get(f"{PATH}/{odd}/comparisons")
            assert response.status_code == 404, odd
            problem(response)
    assert (wrong.status_code, nobody.status_code) == (404, 404)
    assert "there are v2 beside v1" in problem(wrong)["problem"]
    assert "no shadow of 'other'" in problem(nobody)["problem"]


@pytest.mark.parametrize(
    ("query", "named"),
    [
        ("limit=0", "limit"),
        ("limit=" + "9" * 5000, "limit"),
        ("result=agrees", "result"),
        ("result=dropped", "result"),
        ("result=maybe", "result"),
        ("shadow=two", "shadow"),
        ("shadow=-1", "shadow"),
        ("active=%C2%B2", "active"),
        ("active=" + "9" * 5000, "active"),
        ("cursor=x", "cursor"),
        ("cursor=%F0%9F%98%80", "cursor"),
    ],
)
async def test_a_parameter_that_means_nothing_is_named(
    tmp_path: Path, query: str, named: str
) -> None:
    async with Bench(folder=tmp_path).serving() as (client, store):
        await store.shadows.compared([comparison("a")])
        response = await client.get(f"{OF_NODE}?{query}")
    assert response.status_code == 400
    assert named in problem(response)["problem"]


@pytest.mark.parametrize("path", [PATH, OF_NODE])
async def test_only_who_may_read_reads(tmp_path: Path, path: str) -> None:
    tokens = (token("reader", "r", ["read"]), token("sender", "s", ["ingest"]))
    expected: list[tuple[dict[str, Any], set[int]]] = [
        ({}, {401}),
        ({"authorization": "Bearer s"}, {403}),
        ({"authorization": "Bearer r"}, {200, 404}),
    ]
    async with Bench(folder=tmp_path, tokens=tokens).serving() as (client, _):
        for headers, statuses in expected:
            assert (await client.get(path, headers=headers)).status_code in statuses
        assert (await client.post(path)).status_code == 405


@pytest.mark.parametrize("path", [PATH, OF_NODE])
async def test_a_store_in_trouble_is_a_503(tmp_path: Path, path: str) -> None:
    async with Bench(folder=tmp_path, shadows=BrokenShadows()).serving() as (client, _):
        response = await client.get(path)
    assert response.status_code == 503
    assert response.headers["retry-after"] == "1"
    assert "disk I/O error" in problem(response)["problem"]
