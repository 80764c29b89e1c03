"""The sender tries until it is promised, and writes down promises only."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import orjson
import pytest

from bench.chaos import sender as sending
from bench.chaos.client import HttpClient, NoAnswer
from bench.chaos.clock import PlanClock
from bench.chaos.journal import Journal, read_journal
from bench.chaos.messages import Message
from bench.chaos.sender import Sender
from bench.servers import free_port
from tests.scripted_server import (
    Script,
    ScriptedServer,
    close_mid_body,
    hang,
    hang_up,
    in_turn,
    reply,
)

MESSAGE = Message(
    number=3, due_s=0.0, kind="firing", path="/api/v1/alerts", body=b"{}", ids=("id-3",)
)
TAKEN = reply(202, orjson.dumps({"alert_ids": ["id-3"]}))
BOUND_S = 30.0


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sending, "PAUSE_S", 0.0)
    monkeypatch.setattr(sending, "MOST_WAIT_S", 0.0)


async def sent(path: Path, scripts: Sequence[Script]) -> tuple[Sender, list[ScriptedServer]]:
    """MESSAGE, sent to replicas that follow `scripts`."""
    journal = Journal(path)
    servers = [ScriptedServer(script) for script in scripts]
    try:
        for server in servers:
            await server.__aenter__()
        sender = Sender([server.port for server in servers], journal, seed=1)
        async with asyncio.timeout(BOUND_S):
            await sender.send_when_due([MESSAGE], PlanClock(lambda: True))
            assert await sender.finish(BOUND_S) == 0
        await sender.close()
    finally:
        for server in servers:
            await server.close()
        journal.close()
    return sender, servers


async def test_a_promise_is_written_down(tmp_path: Path) -> None:
    sender, _ = await sent(tmp_path / "journal", [TAKEN])
    (promise,) = read_journal(tmp_path / "journal")
    assert (promise.ids, promise.expected, promise.status) == (("id-3",), ("id-3",), 202)
    assert promise.left_at <= promise.at
    assert (sender.answered, sender.sent.ids, sender.sent.requests) == (1, {"id-3"}, 1)


@pytest.mark.parametrize("status", [429, 503])
async def test_a_refusal_is_tried_again_and_promises_nothing(tmp_path: Path, status: int) -> None:
    refused = reply(status, b"{}", {"Retry-After": "7"})
    sender, (server,) = await sent(tmp_path / "journal", [in_turn(refused, refused, TAKEN)])
    assert (sender.sent.refused, len(server.requests)) == (2, 3)
    assert len(read_journal(tmp_path / "journal")) == 1


@pytest.mark.parametrize("script", [hang_up(), close_mid_body(b"x" * 100)])
async def test_a_lost_answer_is_tried_again_at_another(tmp_path: Path, script: Script) -> None:
    sender, servers = await sent(tmp_path / "journal", [in_turn(script, TAKEN)] * 2)
    assert sender.sent.unanswered == 1
    assert sorted(len(server.requests) for server in servers) == [1, 1]
    assert len(read_journal(tmp_path / "journal")) == 1


async def test_what_is_taken_for_wrong_is_not_sent_again(tmp_path: Path) -> None:
    sender, (server,) = await sent(tmp_path / "journal", [reply(400, b"no alarm")])
    assert sender.sent.rejected == ["message 3: 400 no alarm"]
    assert len(server.requests) == 1
    assert read_journal(tmp_path / "journal") == []


async def test_what_is_never_answered_is_counted(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal")
    async with ScriptedServer(hang()) as server:
        sender = Sender([server.port], journal, seed=1)
        sender.send(MESSAGE)
        await server.arrived(1)
        assert await sender.finish(0.01) == 1
        assert sender.under_way == 1
        await sender.close()
    journal.close()
    assert sender.sent.ids == {"id-3"}
    assert read_journal(tmp_path / "journal") == []


async def test_a_fault_of_the_sender_is_told(tmp_path: Path) -> None:
    sender, _ = await sent(tmp_path / "journal", [reply(202, b"no JSON")])
    (told,) = sender.sent.rejected
    assert told.startswith("the sender itself failed")


async def test_a_client_gives_up_in_time() -> None:
    async with ScriptedServer(hang()) as server:
        client = HttpClient(server.port)
        with pytest.raises(NoAnswer):
            await client.ask("GET", "/", within_s=0.05)
        client.close()
    nobody = HttpClient(free_port())
    with pytest.raises(NoAnswer):
        await nobody.ask("GET", "/", within_s=BOUND_S)


async def test_a_connection_is_used_again_until_it_breaks() -> None:
    async with ScriptedServer(reply(200, b"{}")) as server:
        client = HttpClient(server.port)
        for _ in range(3):
            assert (await client.ask("GET", "/", within_s=BOUND_S)).status == 200
        assert len(server.requests) == 3
        server.script = hang_up()
        with pytest.raises(NoAnswer):
            await client.ask("GET", "/", within_s=BOUND_S)
        server.script = reply(200, b"{}")
        assert (await client.ask("GET", "/", within_s=BOUND_S)).body == b"{}"
        client.close()
