"""What a sender is told, and that a 2xx means durable."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.payload_mutations import base_payloads
from tests.unit.app.http_world import NATIVE, Bench, problem
from tests.unit.evaluation.world import sample
from triage.errors import (
    Overloaded,
    PayloadError,
    QueueError,
    SourceFailed,
    SourceFailure,
    StoreError,
)
from triage.intake.request import Parsed
from triage.model.alert import Accepted, AlertId, Arrival, Severity
from triage.ports import Delivery, StoredAlert

FORMATS = ["native", "alertmanager", "grafana", "pagerduty", "cloudevents", "sns"]
BAD_BODIES = [b"", b" ", b"null", b"1", b'"x"', b"[]", b"{}", b"{", b"\xff\xfe", b'{"alerts": 5}']


def path(name: str) -> str:
    return f"/api/v1/alerts/{name}"


class Alerts:
    """An `AlertLog` that raises what it is told to."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    async def accept(self, arrivals: Sequence[Arrival]) -> list[Accepted]:
        assert arrivals
        raise self._error

    async def begin_attempt(self, alert_id: AlertId) -> StoredAlert | None:
        raise self._error

    async def release_attempt(self, alert_id: AlertId) -> None:
        raise self._error

    async def dead_letter(self, alert_id: AlertId, reason: str, detail: str) -> bool:
        raise self._error

    async def hold(self, alert_ids: Sequence[AlertId]) -> None:
        raise self._error

    async def to_wake(self, *, limit: int) -> list[tuple[AlertId, Severity]]:
        raise self._error

    async def wake_all(self) -> None:
        raise self._error


class DeafQueue:
    """A `Queue` that takes nothing."""

    label = "deaf"
    trouble = "the broker is gone"

    def __init__(self, error: Exception) -> None:
        self._error = error

    async def publish(self, alerts: Sequence[tuple[AlertId, Severity]]) -> None:
        raise self._error

    async def receive(self, *, limit: int, wait_s: float) -> list[Delivery]:
        return []

    async def settle(self, **_: Any) -> None:
        """Nothing was received."""

    async def extend(self, deliveries: Sequence[Delivery]) -> list[Delivery]:
        return list(deliveries)

    def forgot(self) -> bool:
        return False

    async def depth(self) -> Mapping[str, int]:
        raise self._error

    async def weaknesses(self) -> list[str]:
        return []

    async def close(self) -> None:
        """Nothing is open."""


async def test_an_accepted_alert_is_in_the_store_and_the_reply_says_under_which_id(
    tmp_path: Path,
) -> None:
    bench = Bench(folder=tmp_path)
    async with bench.serving() as (client, store):
        response = await client.post("/api/v1/alerts", json=NATIVE)
        assert response.status_code == 202
        (alert_id,) = response.json()["alert_ids"]
        assert response.json()["alerts"] == [{"alert_id": alert_id, "status": "new"}]
        assert response.json()["rejected"] == []
        assert response.json()["truncated"] == 0
        stored = await store.alerts.begin_attempt(AlertId(alert_id))
        assert stored is not None
        assert stored.alert.alarm == "DiskFull"
        again = await client.post("/api/v1/alerts", json=NATIVE)
        assert again.json()["alerts"] == [{"alert_id": alert_id, "status": "known"}]
        assert (await store.ledger.ledger()).accepted == 1
    requests, alerts = "triage_intake_requests_total", "triage_intake_alerts_total"
    assert sample(bench.metrics, requests, format="native", code="202") == 2
    assert sample(bench.metrics, alerts, format="native", status="new") == 1
    assert sample(bench.metrics, alerts, format="native", status="known") == 1


@pytest.mark.parametrize("name", FORMATS)
async def test_every_format_has_its_path_and_native_has_two(tmp_path: Path, name: str) -> None:
    async with Bench(folder=tmp_path, max_body_bytes=10**6).serving() as (client, store):
        for base in base_payloads():
            if base.format != name:
                continue
            response = await client.post(
                path(name), content=json.dumps(base.document), headers=base.headers
            )
            assert response.status_code == 202, response.text
            known = response.json()["alert_ids"]
            for alert_id in known:
                assert await store.decisions.get(alert_id) == {"status": "pending"}


@pytest.mark.parametrize(
    "name", ["nagios", "", "native/x", "NATIVE", "__class__", "%00", "a" * 3000]
)
async def test_another_format_is_not_found(tmp_path: Path, name: str) -> None:
    bench = Bench(folder=tmp_path)
    async with bench.serving() as (client, _):
        response = await client.post(f"/api/v1/alerts/{name}", json=NATIVE)
        assert response.status_code in {404, 307}
        if response.status_code == 404:
            problem(response)
        page = (await client.get("/metrics")).text
    assert 'format="' + (name or "?") not in page.replace('format="native"', "")


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "PATCH", "OPTIONS"])
async def test_another_method_is_not_allowed(tmp_path: Path, method: str) -> None:
    async with Bench(folder=tmp_path).serving() as (client, _):
        response = await client.request(method, "/api/v1/alerts")
        assert response.status_code == 405
        assert response.headers["allow"] == "POST"
        problem(response)


@pytest.mark.parametrize("name", FORMATS)
async def test_what_is_no_alert_is_refused_naming_the_field(tmp_path: Path, name: str) -> None:
    bench = Bench(folder=tmp_path)
    async with bench.serving() as (client, store):
        for body in BAD_BODIES:
            response = await client.post(path(name), content=body)
            assert response.status_code == 400, body
            error = problem(response)
            assert error["field"], body
        assert (await store.ledger.ledger()).accepted == 0
    refused = sample(bench.metrics, "triage_intake_rejected_total", format=name)
    assert refused == len(BAD_BODIES)


async def test_the_good_alerts_of_a_batch_are_taken_and_the_bad_ones_told(tmp_path: Path) -> None:
    batch = [NATIVE, {"alarm": 5}, NATIVE | {"id": "2", "fired_at": "when?"}, NATIVE | {"id": "3"}]
    async with Bench(folder=tmp_path).serving() as (client, store):
        response = await client.post("/api/v1/alerts", json=batch)
        assert response.status_code == 202
        document = response.json()
        assert len(document["alert_ids"]) == 2
        assert [one["index"] for one in document["rejected"]] == [1, 2]
        assert document["rejected"][1]["field"] == "[2].fired_at"
        assert (await store.ledger.ledger()).accepted == 2


async def test_alerts_lost_upstream_are_surfaced(tmp_path: Path) -> None:
    (base, *_) = [b for b in base_payloads() if b.format == "alertmanager"]
    bench = Bench(folder=tmp_path, max_body_bytes=10**6)
    async with bench.serving() as (client, _):
        response = await client.post(path("alertmanager"), json=base.document)
    truncated = base.document["truncatedAlerts"]
    assert truncated > 0
    assert response.json()["truncated"] == truncated
    name = "triage_intake_truncated_alerts_total"
    assert sample(bench.metrics, name, format="alertmanager") == truncated


@pytest.mark.parametrize(
    ("name", "code"),
    [("native", 429), ("alertmanager", 503), ("grafana", 503), ("pagerduty", 429)],
)
async def test_overload_answers_what_the_sender_will_try_again(
    tmp_path: Path, name: str, code: int
) -> None:
    """Alertmanager and Grafana take any 4xx for final, 429 too."""
    base = next(b for b in base_payloads() if b.format == name)
    bench = Bench(
        folder=tmp_path, alerts=Alerts(Overloaded("10 are pending", 17)), max_body_bytes=10**6
    )
    async with bench.serving() as (client, _):
        response = await client.post(path(name), json=base.document)
    assert response.status_code == code
    assert response.headers["retry-after"] == "17"
    assert "10 are pending" in problem(response)["problem"]


async def test_overload_of_the_real_store_drops_nothing_silently(tmp_path: Path) -> None:
    async with Bench(folder=tmp_path, max_pending=3).serving() as (client, store):
        responses = [
            await client.post("/api/v1/alerts", json=NATIVE | {"id": str(n)}) for n in range(10)
        ]
        codes = [response.status_code for response in responses]
        assert codes == [202] * 3 + [429] * 7
        assert int(responses[-1].headers["retry-after"]) >= 1
        assert (await store.ledger.ledger()).accepted == 3


@pytest.mark.parametrize("name", ["native", "alertmanager"])
async def test_a_store_that_cannot_write_accepts_nothing(tmp_path: Path, name: str) -> None:
    base = next(b for b in base_payloads() if b.format == name)
    bench = Bench(folder=tmp_path, alerts=Alerts(StoreError("disk full")), max_body_bytes=10**6)
    async with bench.serving() as (client, _):
        response = await client.post(path(name), json=base.document)
    assert response.status_code == 503
    assert response.headers["retry-after"] == "1"
    assert "nothing was accepted" in problem(response)["problem"]


async def test_what_the_store_finds_wrong_with_the_payload_is_the_senders(tmp_path: Path) -> None:
    bench = Bench(folder=tmp_path, alerts=Alerts(PayloadError("labels.x", "cannot be stored")))
    async with bench.serving() as (client, _):
        response = await client.post("/api/v1/alerts", json=NATIVE)
    assert response.status_code == 400
    assert problem(response)["field"] == "labels.x"


@pytest.mark.parametrize("error", [StoreError("disk full"), QueueError("the broker is gone")])
async def test_a_queue_that_is_down_costs_no_alert(tmp_path: Path, error: Exception) -> None:
    """It is durable: the sweeper publishes what no queue holds."""
    async with Bench(folder=tmp_path, queue=DeafQueue(error)).serving() as (client, store):
        response = await client.post("/api/v1/alerts", json=NATIVE)
        assert response.status_code == 202
        assert (await store.ledger.ledger()).pending == 1


async def test_a_daemon_that_drains_takes_nothing_more(tmp_path: Path) -> None:
    bench = Bench(folder=tmp_path, draining=True)
    async with bench.serving() as (client, store):
        response = await client.post("/api/v1/alerts", json=NATIVE)
        assert response.status_code == 503
        assert response.headers["retry-after"] == "5"
        assert (await client.get("/api/v1/decisions")).status_code == 200
        assert (await store.ledger.ledger()).accepted == 0


@pytest.mark.parametrize("stage", ["verifying", "confirming"])
async def test_when_aws_cannot_be_asked_the_sender_is_to_come_back(
    tmp_path: Path, stage: str
) -> None:
    """A 4xx would be final to SNS, and the alarm lost for a network's hiccup."""

    async def unreachable(_: Parsed) -> Any:
        raise SourceFailed(SourceFailure.CONNECT, "AWS could not be asked: ConnectError")

    (base, *_) = [b for b in base_payloads() if b.format == "sns"]
    bench = Bench(folder=tmp_path, max_body_bytes=10**6)
    setattr(bench, stage, unreachable)
    async with bench.serving() as (client, _):
        response = await client.post(path("sns"), json=base.document)
    assert response.status_code == 503
    assert response.headers["retry-after"] == "5"


async def test_a_message_whose_signature_does_not_hold_is_not_accepted(tmp_path: Path) -> None:
    async def forged(_: Parsed) -> None:
        raise PayloadError("Signature", "does not hold")

    (base, *_) = [b for b in base_payloads() if b.format == "sns"]
    bench = Bench(folder=tmp_path, max_body_bytes=10**6, verifying=forged)
    async with bench.serving() as (client, store):
        response = await client.post(path("sns"), json=base.document)
        assert response.status_code == 400
        assert problem(response)["field"] == "Signature"
        assert (await store.ledger.ledger()).accepted == 0


async def test_a_fault_of_ours_is_a_500_without_its_insides(tmp_path: Path) -> None:
    bench = Bench(folder=tmp_path, alerts=Alerts(ZeroDivisionError("secret insides")))
    async with bench.serving() as (client, _):
        response = await client.post("/api/v1/alerts", json=NATIVE)
    assert response.status_code == 500
    problem(response)
    assert "insides" not in response.text
    assert sample(bench.metrics, "triage_intake_requests_total", format="native", code="500") == 1


async def test_senders_of_one_format_are_told_apart_by_integration_and_tenant(
    tmp_path: Path,
) -> None:
    async with Bench(folder=tmp_path).serving() as (client, _):
        ids = set()
        for query, headers in (
            ("", {}),
            ("?integration=east", {}),
            ("?integration=west", {}),
            ("?integration=east", {"x-scope-orgid": "t1"}),
        ):
            response = await client.post(f"/api/v1/alerts{query}", json=NATIVE, headers=headers)
            assert response.status_code == 202
            ids.update(response.json()["alert_ids"])
        assert len(ids) == 4


@pytest.mark.parametrize(
    ("query", "tenant"),
    [("?integration=" + "x" * 5000, ""), ("?integration=%00", ""), ("", "x" * 5000)],
)
async def test_names_that_cannot_be_kept_are_refused(
    tmp_path: Path, query: str, tenant: str
) -> None:
    async with Bench(folder=tmp_path).serving() as (client, _):
        response = await client.post(
            f"/api/v1/alerts{query}", json=NATIVE, headers={"x-scope-orgid": tenant}
        )
    assert response.status_code == 400
