"""Dead letters over HTTP: lists, one with its payload, trying again and taking out."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.contract.store_world import START, arrival
from tests.unit.app.http_world import Bench, all_pages, problem
from tests.unit.app.test_http_reading import ODD_IDS
from triage.adapters.store import Store
from triage.app.dead_letters import payload_of
from triage.app.delivery_sections import StreamSection
from triage.app.http.access import token
from triage.app.sections import FormatSection, IntakeSection
from triage.errors import Overloaded, QueueError, StoreError
from triage.model.alert import Accepted, AlertId, Arrival, Severity
from triage.model.gap import CLOSED_BY_CHARS, NOTE_CHARS
from triage.ports import DeadLetter, DeadLetterPage

PATH = "/api/v1/dead-letters"
BY_ANN = {"by": "ann"}
GOOD = {"name": "DiskFull", "fired_at": "2026-03-01T11:59:00Z", "id": "1"}
MAPPED = IntakeSection(native=FormatSection(alarm=("name",)))
ORDERS = StreamSection(
    url="redis://127.0.0.1/0", stream="orders", integration="orders", tenant="east"
)


def message(name: str = "m", body: object = GOOD, **more: Any) -> DeadLetter:
    """A message of a stream that was refused: without MAPPED, GOOD names no alarm."""
    given: dict[str, Any] = {
        "dead_letter_id": (name * 32)[:32],
        "stream": "orders",
        "format": "native",
        "payload": body if isinstance(body, bytes) else orjson.dumps(body),
        "reason": "undecodable",
        "detail": "alarm: no alarm name",
        "attempts": 1,
        "at": START,
    }
    return DeadLetter(**{**given, **more})


async def bury(store: Store, letter: DeadLetter) -> str:
    assert await store.dead_letters.bury(letter)
    return letter.dead_letter_id


async def dead_alert(store: Store) -> AlertId:
    (accepted,) = await store.alerts.accept([arrival()])
    assert accepted.alert_id is not None
    for delivery in await store.queue.receive(limit=9, wait_s=0):
        await store.queue.settle(acked=[delivery])
    assert await store.alerts.dead_letter(accepted.alert_id, "attempts_used_up", "5 attempts")
    return accepted.alert_id


async def counts(store: Store) -> tuple[int, int, int, int]:
    """Accepted, pending, dead-lettered, discarded, of a ledger that balances."""
    ledger = await store.ledger.ledger(full=True)
    assert ledger.balances, ledger
    return ledger.accepted, ledger.pending, ledger.dead_lettered, ledger.discarded


class BrokenDeadLetters:
    """`DeadLetterLog` of a store in trouble."""

    def __init__(self, error: StoreError | None = None) -> None:
        self._error = error or StoreError("disk I/O error")

    async def bury(self, message: DeadLetter) -> bool:
        raise self._error

    async def dead_letter_page(self, *, reason: str, cursor: str, limit: int) -> DeadLetterPage:
        raise self._error

    async def dead_letter(self, dead_letter_id: str) -> DeadLetter | None:
        if isinstance(self._error, Overloaded):
            return message(alert_id="a", stream="")
        raise self._error

    async def redrive(
        self, dead_letter_id: str, *, by: str, at: datetime, arrivals: Sequence[Arrival] = ()
    ) -> Sequence[Accepted] | None:
        raise self._error

    async def discard(self, dead_letter_id: str, *, by: str, note: str, at: datetime) -> bool:
        raise self._error


# --- reading --------------------------------------------------------------------------------------


async def test_a_message_is_told_with_its_payload(tmp_path: Path) -> None:
    async with Bench(folder=tmp_path).serving() as (client, store):
        wanted = await bury(store, message(headers={"trace": "x\x1b[31m"}))
        listed = (await client.get(PATH)).json()
        one = (await client.get(f"{PATH}/{wanted}")).json()
    assert listed == {
        "dead_letters": [
            {
                "dead_letter_id": wanted,
                "reason": "undecodable",
                "detail": "alarm: no alarm name",
                "attempts": 1,
                "at": "2026-03-01T12:00:00+00:00",
                "alert_id": "",
                "alarm": "",
                "site": "",
                "severity": "",
                "stream": "orders",
                "format": "native",
                "payload_bytes": len(orjson.dumps(GOOD)),
            }
        ],
        "cursor": "",
    }
    assert one == {
        **listed["dead_letters"][0],
        "headers": {"trace": "x\x1b[31m"},
        "payload": orjson.dumps(GOOD).decode(),
    }


async def test_an_alert_is_told_with_what_its_sender_sent(tmp_path: Path) -> None:
    async with Bench(folder=tmp_path).serving() as (client, store):
        alert_id = await dead_alert(store)
        one = (await client.get(f"{PATH}/{alert_id}")).json()
    assert (one["alert_id"], one["alarm"], one["site"]) == (alert_id, "al_queue", "north")
    assert (one["severity"], one["stream"], one["reason"]) == ("warning", "", "attempts_used_up")
    assert one["payload"] == '{"raw":true}'


@pytest.mark.parametrize(
    "body", [b"\xff\xfe\x00", b"", "grün 😀\r\n\x00".encode(), b"\xed\xa0\x80"]
)
async def test_a_payload_comes_back_byte_for_byte(tmp_path: Path, body: bytes) -> None:
    async with Bench(folder=tmp_path).serving() as (client, store):
        wanted = await bury(store, message(body=body))
        one = (await client.get(f"{PATH}/{wanted}")).json()
    assert payload_of(one) == body
    assert one["payload_bytes"] == len(body)


pages = partial(
    all_pages, path=PATH, of="dead_letters", shown=lambda one: str(one["dead_letter_id"][0])
)


async def test_pages_are_newest_first_and_can_be_narrowed(tmp_path: Path) -> None:
    async with Bench(folder=tmp_path).serving() as (client, store):
        for number, name in enumerate("abcde"):
            reason = "too_large" if name == "c" else "undecodable"
            await bury(store, message(name, at=START.replace(minute=number), reason=reason))
        found = await pages(client, "limit=2")
        assert [len(page) for page in found] == [2, 2, 1]
        assert list(chain(*found)) == ["e", "d", "c", "b", "a"]
        assert await pages(client, "reason=too_large") == [["c"]]
        assert await pages(client, "reason=no") == [[]]


@pytest.mark.parametrize(
    ("query", "named"), [("limit=0", "limit"), ("limit=1001", "limit"), ("cursor=x", "cursor")]
)
async def test_a_parameter_that_means_nothing_is_named(
    tmp_path: Path, query: str, named: str
) -> None:
    async with Bench(folder=tmp_path).serving() as (client, _):
        response = await client.get(f"{PATH}?{query}")
    assert response.status_code == 400
    assert named in problem(response)["problem"]


@pytest.mark.parametrize("what", ["", "/redrive", "/discard"])
async def test_an_id_of_any_kind_is_only_not_found(tmp_path: Path, what: str) -> None:
    async with Bench(folder=tmp_path).serving() as (client, _):
        for odd in ODD_IDS:
            response = await client.request(
                "POST" if what else "GET", f"{PATH}/{odd}{what}", json=BY_ANN
            )
            assert response.status_code == 404, odd
            problem(response)


# --- trying again ---------------------------------------------------------------------------------


async def test_an_alert_is_pending_again_and_on_the_queue(tmp_path: Path) -> None:
    async with Bench(folder=tmp_path).serving() as (client, store):
        alert_id = await dead_alert(store)
        assert await store.queue.receive(limit=9, wait_s=0) == []
        answer = await client.post(f"{PATH}/{alert_id}/redrive", json=BY_ANN)
        received = await store.queue.receive(limit=9, wait_s=0)
        assert await counts(store) == (1, 1, 0, 0)
        again = await client.post(f"{PATH}/{alert_id}/redrive", json=BY_ANN)
        assert (await client.get(f"{PATH}/{alert_id}/redrive")).status_code == 405
    assert answer.json() == {
        "dead_letter_id": alert_id,
        "alert_ids": [alert_id],
        "recorded": 0,
        "rejected": [],
        "stays": False,
        "delayed": "",
    }
    assert [delivery.alert_id for delivery in received] == [alert_id]
    assert again.status_code == 404


async def test_a_message_stays_until_the_field_maps_fit(tmp_path: Path) -> None:
    """And is then of the stream's integration and tenant, as if it had been read well at once."""
    async with Bench(folder=tmp_path, streams={"orders": ORDERS}).serving() as (client, store):
        wanted = await bury(store, message())
        refused = await client.post(f"{PATH}/{wanted}/redrive", json=BY_ANN)
        assert await counts(store) == (1, 0, 1, 0)
    assert refused.status_code == 422
    assert problem(refused)["field"] == "alarm"
    assert "no alarm name" in problem(refused)["problem"]
    mended = Bench(folder=tmp_path / "mended", streams={"orders": ORDERS}, intake=MAPPED)
    mended.folder.mkdir()
    async with mended.serving() as (client, store):
        wanted = await bury(store, message())
        answer = (await client.post(f"{PATH}/{wanted}/redrive", json=BY_ANN)).json()
        (alert_id,) = answer["alert_ids"]
        stored = await store.alerts.stored(AlertId(alert_id))
        assert stored is not None
        assert (stored.alert.integration, stored.alert.tenant) == ("orders", "east")
        assert await counts(store) == (1, 1, 0, 0)
        assert [d.alert_id for d in await store.queue.receive(limit=9, wait_s=0)] == [alert_id]
        assert (await client.get(f"{PATH}/{wanted}")).status_code == 404


async def test_what_is_partly_an_alert_is_accepted_and_stays_for_the_rest(tmp_path: Path) -> None:
    async with Bench(folder=tmp_path, intake=MAPPED).serving() as (client, store):
        wanted = await bury(store, message(body=[GOOD, {"id": "2"}]))
        answer = (await client.post(f"{PATH}/{wanted}/redrive", json=BY_ANN)).json()
        assert len(answer["alert_ids"]) == 1
        assert answer["stays"] is True
        assert answer["rejected"][0]["field"] == "[1].name"
        one = (await client.get(f"{PATH}/{wanted}")).json()
        assert one["reason"] == "partly_rejected"
        assert "1 of 2 entries" in one["detail"]
        assert (await counts(store))[1:3] == (1, 1)
        # Once more: nothing is new, and nothing is lost.
        again = (await client.post(f"{PATH}/{wanted}/redrive", json=BY_ANN)).json()
        assert (again["alert_ids"], again["stays"]) == ([], True)
        assert (await counts(store))[1:3] == (1, 1)


@pytest.mark.parametrize(
    "letter",
    [
        message(body=b"no JSON"),
        message(body=b"[]"),
        message(body=b"\xff"),
        message(body={}),
        message(format="smoke"),
        message(stream="of another configuration"),
    ],
)
async def test_what_cannot_be_an_alert_stays(tmp_path: Path, letter: DeadLetter) -> None:
    async with Bench(folder=tmp_path).serving() as (client, store):
        wanted = await bury(store, letter)
        response = await client.post(f"{PATH}/{wanted}/redrive", json=BY_ANN)
        assert response.status_code == 422
        assert problem(response)["field"]
        assert await counts(store) == (1, 0, 1, 0)


class DeadQueue:
    """`Queue.publish` of a broker that is away; a receive is never asked."""

    async def publish(self, alerts: Sequence[tuple[AlertId, Severity]]) -> None:
        raise QueueError(f"connection refused, {len(alerts)} alerts")


async def test_a_queue_that_is_away_delays_and_loses_nothing(tmp_path: Path) -> None:
    queue: Any = DeadQueue()
    async with Bench(folder=tmp_path, queue=queue).serving() as (client, store):
        alert_id = await dead_alert(store)
        answer = (await client.post(f"{PATH}/{alert_id}/redrive", json=BY_ANN)).json()
        assert answer["delayed"] == "connection refused, 1 alerts"
        assert await counts(store) == (1, 1, 0, 0)


# --- taking out -----------------------------------------------------------------------------------


async def test_what_is_discarded_is_gone_and_counted(tmp_path: Path) -> None:
    async with Bench(folder=tmp_path).serving() as (client, store):
        alert_id, wanted = await dead_alert(store), await bury(store, message())
        for one in (alert_id, wanted):
            done = await client.post(f"{PATH}/{one}/discard", json={"by": "ann", "note": "test"})
            assert done.json() == {"dead_letter_id": one, "by": "ann", "note": "test"}
            assert (await client.post(f"{PATH}/{one}/discard", json=BY_ANN)).status_code == 404
        assert await counts(store) == (2, 0, 0, 2)


# --- who may, and what is asked -------------------------------------------------------------------


@pytest.mark.parametrize("what", ["redrive", "discard"])
@pytest.mark.parametrize(
    ("body", "named"),
    [
        (b"", "not JSON"),
        (b"[]", "must be"),
        (b'{"by": "ann", "why": "x"}', "must be"),
        (b"{}", "by is missing"),
        (b'{"by": 7}', "by must be text"),
        (b'{"by": "' + b"x" * (CLOSED_BY_CHARS + 1) + b'"}', "at most"),
        (b'{"by": "ann", "note": "' + b"x" * (NOTE_CHARS + 1) + b'"}', "at most"),
    ],
)
async def test_a_body_that_means_nothing_changes_nothing(
    tmp_path: Path, what: str, body: bytes, named: str
) -> None:
    async with Bench(folder=tmp_path, intake=MAPPED).serving() as (client, store):
        wanted = await bury(store, message())
        response = await client.post(f"{PATH}/{wanted}/{what}", content=body)
        assert await counts(store) == (1, 0, 1, 0)
    assert response.status_code == 400
    assert named in problem(response)["problem"]


async def test_a_body_without_an_end_is_not_read(tmp_path: Path) -> None:
    async with Bench(folder=tmp_path).serving() as (client, store):
        wanted = await bury(store, message())
        body = b'{"by": "' + b"x" * 1_000_000 + b'"}'
        response = await client.post(f"{PATH}/{wanted}/discard", content=body)
    assert response.status_code == 413


async def test_reading_and_changing_are_scopes_of_their_own(tmp_path: Path) -> None:
    tokens = (
        token("in", "i", ["ingest"]),
        token("eye", "r", ["read"]),
        token("boss", "a", ["admin"]),
    )
    async with Bench(folder=tmp_path, tokens=tokens).serving() as (client, store):
        wanted = await bury(store, message())
        for method, what, allowed in (
            ("GET", "", "r"),
            ("GET", f"/{wanted}", "r"),
            ("POST", f"/{wanted}/redrive", "a"),
            ("POST", f"/{wanted}/discard", "a"),
        ):
            for secret in "ira":
                headers = {"authorization": f"Bearer {secret}"}
                answer = await client.request(method, PATH + what, headers=headers, json={})
                assert (answer.status_code == 403) == (secret != allowed), (what, secret)
            assert (await client.request(method, PATH + what, json={})).status_code == 401
        assert await counts(store) == (1, 0, 0, 1), "the token's name stood for who did it"


CALLS = [("GET", ""), ("GET", "/x"), ("POST", "/x/redrive"), ("POST", "/x/discard")]


@pytest.mark.parametrize(("method", "what"), CALLS)
async def test_a_store_in_trouble_is_a_503(tmp_path: Path, method: str, what: str) -> None:
    async with Bench(folder=tmp_path, dead_letters=BrokenDeadLetters()).serving() as (client, _):
        response = await client.request(method, PATH + what, json=BY_ANN)
    assert response.status_code == 503
    assert response.headers["retry-after"] == "1"
    assert "disk I/O error" in problem(response)["problem"]


async def test_a_full_store_says_when_to_come_back(tmp_path: Path) -> None:
    full = BrokenDeadLetters(Overloaded("10000 alerts are pending", 7))
    async with Bench(folder=tmp_path, dead_letters=full).serving() as (client, _):
        response = await client.post(f"{PATH}/x/redrive", json=BY_ANN)
    assert (response.status_code, response.headers["retry-after"]) == (429, "7")
