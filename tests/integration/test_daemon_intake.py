"""Every payload there is, and ten thousand that ought not to be, over real connections."""

from __future__ import annotations

import asyncio
import json
import urllib.request
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import orjson

from tests.daemon import Daemon, Project, good_tool, served
from tests.daemon_neighbours import Client, MetricsScript
from tests.payload_mutations import PAYLOADS, base_payloads, mutations
from tests.scripted_server import ScriptedServer

SEED = 20260301
PAYLOAD_COUNT = 10_000
CONNECTIONS = 8
# Refusals that say what to do; above all no 5xx but "not now".
EXPECTED = {202, 400, 413, 429, 503}

FORMAT_OF = {
    "alertmanager": "alertmanager",
    "grafana": "grafana",
    "pagerduty": "pagerduty",
    "cloudevents": "cloudevents",
    "sns": "sns",
}


def project(folder: Path, metrics: ScriptedServer) -> Project:
    return Project(
        folder=folder / "project",
        nodes={"a": good_tool()},
        metrics_url=metrics.url,
        more="[intake.sns]\nverify_signatures = false\n",
    ).write()


async def send(daemon: Daemon, name: str, document: Any, **headers: str) -> dict[str, Any]:
    async with Client(daemon.port) as client:
        reply = await client.request(
            "POST",
            f"/api/v1/alerts/{name}",
            body=orjson.dumps(document),
            headers={"content-type": "application/json", **headers},
        )
    assert reply.status == 202, (name, reply.status, reply.body)
    answer: dict[str, Any] = orjson.loads(reply.body)
    return answer


async def test_every_stored_payload_is_accepted_or_answered(tmp_path: Path) -> None:
    async with (
        ScriptedServer(MetricsScript()) as metrics,
        served(project(tmp_path, metrics)) as daemon,
    ):
        for path in sorted(PAYLOADS.glob("*.json")):
            name = FORMAT_OF[path.name.split("-")[0]]
            document = json.loads(path.read_text())
            headers = {}
            if name == "cloudevents":
                headers["content-type"] = "application/cloudevents+json"
            answer = await send(daemon, name, document, **headers)
            assert answer["rejected"] == [], path.name
            for alert_id in answer["alert_ids"]:
                decision = await daemon.decision(alert_id)
                assert decision["reason"] in {"unrouted", ""}, path.name
        assert (await daemon.settled())["balances"] is True


async def test_truncated_resolved_and_zero_ends_at(tmp_path: Path) -> None:
    def stored(name: str) -> Any:
        return json.loads((PAYLOADS / f"{name}.json").read_text())

    async with (
        ScriptedServer(MetricsScript()) as metrics,
        served(project(tmp_path, metrics)) as daemon,
    ):
        document = stored("alertmanager-v4-firing-truncated")
        assert document["alerts"][0]["endsAt"] == "0001-01-01T00:00:00Z"
        answer = await send(daemon, "alertmanager", document)
        assert answer["truncated"] == document["truncatedAlerts"] > 0
        decided = await daemon.decision(answer["alert_ids"][0])
        assert decided["outcome"] == "escalate", "firing, whatever endsAt says"
        page = await asyncio.to_thread(_metrics, daemon)
        assert f'truncated_alerts_total{{format="alertmanager"}} {answer["truncated"]}' in page

        # Under a name of its own: what it says is resolved fired in the payload before.
        document = stored("alertmanager-v4-mixed-resolved")
        answer = await send(daemon, "alertmanager?integration=other", document)
        for entry, alert in zip(document["alerts"], answer["alerts"], strict=True):
            outcome = (await daemon.decision(alert["alert_id"]))["outcome"]
            assert (outcome == "resolved") == (entry["status"] == "resolved")

        trigger = stored("pagerduty-events-v2-trigger")
        resolve = stored("pagerduty-events-v2-resolve")
        resolve["dedup_key"] = trigger["dedup_key"]
        first = await send(daemon, "pagerduty", trigger)
        assert first["dedup_key"] == trigger["dedup_key"]
        second = await send(daemon, "pagerduty", resolve)
        assert second["alert_ids"] == first["alert_ids"]


def _metrics(daemon: Daemon) -> str:
    with urllib.request.urlopen(f"{daemon.url}/metrics", timeout=30) as response:  # noqa: S310 - ours
        page: str = response.read().decode()
    return page


async def test_ten_thousand_damaged_payloads_cause_no_fault_and_no_loss(tmp_path: Path) -> None:
    """No 500, no crash, and whatever was answered with a 2xx is in the store."""
    cases: Iterator[tuple[str, dict[str, str], bytes]] = islice(mutations(SEED), PAYLOAD_COUNT)
    codes: Counter[int] = Counter()
    promised: set[str] = set()
    hung_up = 0

    async def sender(daemon: Daemon) -> None:
        nonlocal hung_up
        async with Client(daemon.port) as client:
            for name, headers, body in cases:
                try:
                    reply = await client.request(
                        "POST", f"/api/v1/alerts/{name}", body=body, headers=headers
                    )
                except (ConnectionError, asyncio.IncompleteReadError):
                    # Too large a body may be answered by hanging up while it is still sent.
                    assert len(body) > 4 << 20, (name, headers, body[:200])
                    hung_up += 1
                    continue
                codes[reply.status] += 1
                assert reply.status in EXPECTED, (reply, name, headers, body[:2000])
                document = orjson.loads(reply.body)
                if reply.status == 202:
                    promised.update(document["alert_ids"])
                elif reply.status == 400:
                    assert document["error"]["field"], (document, name, headers, body[:2000])

    async with (
        ScriptedServer(MetricsScript()) as metrics,
        served(project(tmp_path, metrics)) as daemon,
    ):
        async with asyncio.TaskGroup() as group:
            for _ in range(CONNECTIONS):
                group.create_task(sender(daemon))
        assert daemon.is_alive
        ledger = await daemon.settled()
        assert ledger["balances"] is True, ledger
        assert ledger["dead_lettered"] == 0, daemon.logged("attempt_crashed")[:3]
        stored = {alert_id for (alert_id,) in daemon.project.rows("select alert_id from alerts")}
        decided = {
            alert_id for (alert_id,) in daemon.project.rows("select alert_id from decisions")
        }
        assert daemon.logged("request_crashed") == []
        assert daemon.logged("attempt_crashed") == []
        assert await daemon.terminated() == 0
    print(f"\ncodes {dict(codes)}, hung up {hung_up}, alerts {len(stored)}")  # noqa: T201 - a figure
    assert promised <= stored
    assert stored == decided
    assert codes[202] > PAYLOAD_COUNT / 20, "the damage is such that something still arrives"
    assert codes[400] > PAYLOAD_COUNT / 20


async def test_a_connection_is_kept_through_refusals(tmp_path: Path) -> None:
    base = base_payloads()[0]
    good = orjson.dumps(base.document)
    async with (
        ScriptedServer(MetricsScript()) as metrics,
        served(project(tmp_path, metrics)) as daemon,
        Client(daemon.port) as client,
    ):
        path = "/api/v1/alerts/alertmanager"
        for body, status in ((b"{", 400), (good, 202), (b"", 400), (good, 202)):
            reply = await client.request("POST", path, body=body)
            assert reply.status == status, reply
        reply = await client.request("POST", path, body=b" " * (5 << 20))
        assert reply.status == 413
        client.drop()
        assert (await client.request("POST", path, body=good)).status == 202
