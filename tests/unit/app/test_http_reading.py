"""Decisions, evidence, the ledger, and what operators ask."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from functools import partial
from itertools import chain
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from tests.contract.store_world import arrival, decision
from tests.unit.app.http_world import NATIVE, Bench, all_pages, problem
from triage.adapters.store import Store
from triage.errors import ConfigError, Finding, InvalidFiles, StoreError
from triage.model.alert import AlertId
from triage.model.canonical import sha256_hex
from triage.ports import DecisionFilter, DecisionPage, Ledger

ODD_IDS = [
    "x", "%00", "%ff", "' OR 1=1 --", "a" * 5000, "..%2f..%2fetc", "😀", "%ed%a0%80",
]  # fmt: skip
OPEN_METRICS = {"accept": "application/openmetrics-text;version=1.0.0,text/plain;q=0.5"}


async def decided(store: Store, count: int, **fields: Any) -> list[str]:
    """That many decided alerts, oldest first."""
    ids: list[str] = []
    for n in range(count):
        (accepted,) = await store.alerts.accept([arrival(f"f{n}{fields}", starts_at_ns=n)])
        assert accepted.alert_id is not None
        await store.decisions.commit(decision(accepted.alert_id, **fields), {}, ())
        ids.append(accepted.alert_id)
    return ids


class BrokenReads:
    """`DecisionLog` and `LedgerView` of a store in trouble."""

    async def commit(self, *_: object) -> Any:
        raise StoreError("disk I/O error")

    async def get(self, alert_id: AlertId) -> Mapping[str, Any] | None:
        raise StoreError(f"disk I/O error reading {alert_id}")

    async def page(self, wanted: DecisionFilter, *, cursor: str, limit: int) -> DecisionPage:
        raise StoreError(f"disk I/O error {wanted} {cursor} {limit}")

    async def evidence(self, answer_sha256: str) -> bytes | None:
        raise StoreError(f"disk I/O error {answer_sha256}")

    async def ledger(self, *, full: bool = False) -> Ledger:
        raise StoreError(f"disk I/O error {full}")


def families_of(page: str) -> dict[str, Metric]:
    """Raises ValueError for a page that is no OpenMetrics."""
    parsed = text_string_to_metric_families(page)  # type: ignore[no-untyped-call]  # as it is
    return {family.name: family for family in parsed}


# --- one decision ---------------------------------------------------------------------------------


async def test_an_alert_is_pending_then_decided_and_an_unknown_one_not_found(
    tmp_path: Path,
) -> None:
    async with Bench(folder=tmp_path).serving() as (client, store):
        (alert_id,) = (await client.post("/api/v1/alerts", json=NATIVE)).json()["alert_ids"]
        pending = await client.get(f"/api/v1/decisions/{alert_id}")
        assert (pending.status_code, pending.json()) == (202, {"status": "pending"})
        await store.decisions.commit(decision(alert_id), {}, ())
        done = await client.get(f"/api/v1/decisions/{alert_id}")
        assert done.status_code == 200
        assert done.json()["outcome"] == "no_fault"
        assert datetime.fromisoformat(done.json()["decided_at"]).tzinfo is not None
        unknown = await client.get("/api/v1/decisions/" + "0" * 32)
        assert unknown.status_code == 404
        problem(unknown)


@pytest.mark.parametrize("what", ["decisions", "evidence"])
async def test_an_id_of_any_kind_is_only_not_found(tmp_path: Path, what: str) -> None:
    async with Bench(folder=tmp_path).serving() as (client, _):
        for odd in ODD_IDS:
            response = await client.get(f"/api/v1/{what}/{odd}")
            assert response.status_code == 404, odd
            problem(response)


# --- pages ----------------------------------------------------------------------------------------


pages = partial(all_pages, path="/api/v1/decisions", of="decisions", shown=itemgetter("alert_id"))


async def test_pages_are_newest_first_and_hold_each_decision_once(tmp_path: Path) -> None:
    bench = Bench(folder=tmp_path)
    async with bench.serving() as (client, store):
        ids: list[str] = []
        for n in range(7):
            bench.clock.advance(1)
            ids += await decided(store, 1, alarm=f"al{n}")
        found = await pages(client, "limit=3")
    assert [len(page) for page in found] == [3, 3, 1]
    assert list(chain(*found)) == ids[::-1]


async def test_filters_narrow_the_pages(tmp_path: Path) -> None:
    bench = Bench(folder=tmp_path)
    async with bench.serving() as (client, store):
        one = await decided(store, 2, alarm="one", site="north")
        since = bench.clock.now()
        bench.clock.advance(60)
        other = await decided(store, 1, alarm="other", site="south")
        moment = since.isoformat().replace("+", "%2B")
        for query, wanted in (
            ("alarm=one", one),
            ("site=south", other),
            ("outcome=no_fault", one + other),
            ("outcome=actions", []),
            ("alarm=one&site=south", []),
            (f"until={bench.clock.now():%Y-%m-%dT%H:%M:%SZ}", one),
            (f"since={bench.clock.now():%Y-%m-%dT%H:%M:%SZ}", other),
            (f"since={moment}", one + other),
        ):
            assert sorted(chain(*await pages(client, query))) == sorted(wanted), query


async def test_a_plus_that_became_a_space_is_still_an_offset(tmp_path: Path) -> None:
    async with Bench(folder=tmp_path).serving() as (client, _):
        response = await client.get("/api/v1/decisions?since=2026-03-01T12:00:00+01:00")
    assert response.status_code == 200


@pytest.mark.parametrize(
    ("query", "named"),
    [
        ("limit=0", "limit"),
        ("limit=-1", "limit"),
        ("limit=1001", "limit"),
        ("limit=ten", "limit"),
        ("limit=", "limit"),
        ("limit=1.5", "limit"),
        ("limit=%C2%B2", "limit"),
        ("limit=%D9%A3", "limit"),
        ("limit=" + "9" * 5000, "limit"),
        ("since=yesterday", "since"),
        ("since=2026-03-01T12:00:00", "since"),
        ("until=2026-03-01", "until"),
        ("since=0001-01-01T00:00:00%2B14:00", "since"),
        ("until=9999-12-31T23:59:59-14:00", "until"),
        ("cursor=x", "cursor"),
        ("cursor=%00", "cursor"),
        ("cursor=%F0%9F%98%80", "cursor"),
        ("cursor=" + "A" * 3000, "cursor"),
    ],
)
async def test_a_parameter_that_means_nothing_is_named(
    tmp_path: Path, query: str, named: str
) -> None:
    async with Bench(folder=tmp_path).serving() as (client, _):
        response = await client.get(f"/api/v1/decisions?{query}")
    assert response.status_code == 400
    assert named in problem(response)["problem"]


@pytest.mark.parametrize("edge", ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999Z"])
async def test_the_first_and_last_moments_there_are_can_be_asked_for(
    tmp_path: Path, edge: str
) -> None:
    async with Bench(folder=tmp_path).serving() as (client, _):
        response = await client.get(f"/api/v1/decisions?since={edge}&until={edge}")
    assert response.status_code == 200


# --- evidence and ledger --------------------------------------------------------------------------


async def test_evidence_is_served_as_it_was_stored(tmp_path: Path) -> None:
    body = b'{"rows":[{"value":20}]}'
    async with Bench(folder=tmp_path).serving() as (client, store):
        (accepted,) = await store.alerts.accept([arrival()])
        assert accepted.alert_id is not None
        await store.decisions.commit(decision(accepted.alert_id), {sha256_hex(body): body}, ())
        response = await client.get(f"/api/v1/evidence/{sha256_hex(body)}")
    assert (response.status_code, response.content) == (200, body)
    assert response.headers["content-type"] == "application/json"


@pytest.mark.parametrize("query", ["", "?full=1", "?full=true"])
async def test_the_ledger_balances(tmp_path: Path, query: str) -> None:
    async with Bench(folder=tmp_path).serving() as (client, store):
        await decided(store, 3)
        await client.post("/api/v1/alerts", json=NATIVE)
        document = (await client.get(f"/api/v1/ledger{query}")).json()
    assert (document["accepted"], document["decided"], document["pending"]) == (4, 3, 1)
    assert document["balances"] is True
    assert document["unaccounted"] == []


@pytest.mark.parametrize(
    "path", ["/api/v1/decisions", "/api/v1/decisions/x", "/api/v1/evidence/x", "/api/v1/ledger"]
)
async def test_a_store_in_trouble_is_a_503(tmp_path: Path, path: str) -> None:
    broken = BrokenReads()
    async with Bench(folder=tmp_path, decisions=broken, ledger=broken).serving() as (client, _):
        response = await client.get(path)
    assert response.status_code == 503
    assert response.headers["retry-after"] == "1"
    assert "disk I/O error" in problem(response)["problem"]


# --- operations -----------------------------------------------------------------------------------


async def test_healthy_as_long_as_the_loop_turns(tmp_path: Path) -> None:
    broken = BrokenReads()
    async with Bench(folder=tmp_path, ledger=broken).serving() as (client, _):
        response = await client.get("/-/healthy")
    assert (response.status_code, response.json()) == (200, {"status": "healthy"})


@pytest.mark.parametrize(("ready", "code"), [(True, 200), (False, 503)])
async def test_ready_says_why_not(tmp_path: Path, ready: bool, code: int) -> None:
    document = {"ready": ready, "store": "ok" if ready else "disk full"}
    async with Bench(folder=tmp_path, ready=document).serving() as (client, _):
        response = await client.get("/-/ready")
    assert (response.status_code, response.json()) == (code, document)


@pytest.mark.parametrize("after_alerts", [False, True])
async def test_the_metrics_page_is_open_metrics(tmp_path: Path, after_alerts: bool) -> None:
    async with Bench(folder=tmp_path).serving() as (client, store):
        if after_alerts:
            await decided(store, 2)
            await client.post("/api/v1/alerts", json=NATIVE)
            await client.post("/api/v1/alerts", content=b"rubbish")
            await client.post("/api/v1/alerts/\xff", json=NATIVE)
        response = await client.get("/metrics", headers=OPEN_METRICS)
        plain = await client.get("/metrics")
    assert response.headers["content-type"].startswith("application/openmetrics-text")
    families = families_of(response.text)
    assert {"triage_decision_seconds", "triage_intake_alerts", "triage_store_up"} <= set(families)
    assert families["triage_store_up"].samples[0].value == 1
    accepted = families["triage_alerts_accepted"].samples[0].value
    assert accepted == (3 if after_alerts else 0)
    assert plain.headers["content-type"].startswith("text/plain")
    assert "triage_store_up" in plain.text


async def test_the_metrics_page_outlives_the_store(tmp_path: Path) -> None:
    async with Bench(folder=tmp_path, ledger=BrokenReads()).serving() as (client, _):
        response = await client.get("/metrics", headers=OPEN_METRICS)
    assert response.status_code == 200
    families = families_of(response.text)
    assert families["triage_store_up"].samples[0].value == 0


async def test_a_reload_answers_with_what_is_current(tmp_path: Path) -> None:
    async with Bench(folder=tmp_path).serving() as (client, _):
        response = await client.post("/-/reload")
        assert (response.status_code, response.json()) == (200, {"reloaded": True})
        assert (await client.get("/-/reload")).status_code == 405


async def test_a_refused_reload_says_what_is_wrong_and_where(tmp_path: Path) -> None:
    async def refuse() -> Mapping[str, Any]:
        raise InvalidFiles(
            [
                Finding(file="sop.yaml", line=7, where="a", problem="a cycle", fix="cut it"),
                Finding(file="sites.yaml", problem="stale", warning=True),
            ]
        )

    async with Bench(folder=tmp_path, reloading=refuse).serving() as (client, _):
        response = await client.post("/-/reload")
    assert response.status_code == 422
    error = problem(response)
    assert "the old configuration was kept" in error["problem"]
    assert error["findings"][0] == {
        "file": "sop.yaml",
        "line": 7,
        "where": "a",
        "problem": "a cycle",
        "fix": "cut it",
    }


async def test_a_reload_of_settings_that_cannot_be_read_says_why(tmp_path: Path) -> None:
    async def refuse() -> Mapping[str, Any]:
        raise ConfigError("triage.toml:3: engine.deadline_s must be above 0")

    async with Bench(folder=tmp_path, reloading=refuse).serving() as (client, _):
        response = await client.post("/-/reload")
    assert response.status_code == 422
    assert "triage.toml:3" in problem(response)["problem"]


@pytest.mark.parametrize("path", ["/", "/api", "/api/v1", "/api/v2/alerts", "/-/", "/metrics/x"])
async def test_other_paths_are_not_found_in_the_same_shape(tmp_path: Path, path: str) -> None:
    async with Bench(folder=tmp_path).serving() as (client, _):
        response = await client.get(path)
    assert response.status_code == 404
    problem(response)
