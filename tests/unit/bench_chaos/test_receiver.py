"""The receiver keeps what it read, whatever it answered."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import orjson
import pytest

from bench.chaos import receiver as receiving
from bench.chaos.receiver import SECRET, Manner, Receiver
from triage.adapters.sinks.webhook import WebhookSink
from triage.clock import SystemClock
from triage.errors import SourceFailed

BODY = orjson.dumps({"alert_id": "id-1"})
KEY = "id-1:decision"


def sink(receiver: Receiver, secret: str = SECRET) -> WebhookSink:
    return WebhookSink(
        name="hook",
        url=receiver.url,
        secrets=[secret],
        clock=SystemClock(),
        timeout_s=20.0,
        connections=1,
    )


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receiving, "HANG_S", 0.0)


async def test_a_message_of_the_real_sink_is_kept(tmp_path: Path) -> None:
    async with Receiver(tmp_path / "received", seed=1) as receiver:
        receiver.behave()
        hook = sink(receiver)
        await hook.send(KEY, BODY)
        await hook.send(KEY, BODY)
        await hook.close()
    first, second = receiver.receipts
    assert (first.key, first.alert_id, first.manner) == (KEY, "id-1", Manner.TAKEN)
    assert first.signed
    assert first.sha256 == second.sha256
    assert len((tmp_path / "received").read_bytes().splitlines()) == 2


async def test_a_wrong_signature_is_told(tmp_path: Path) -> None:
    async with Receiver(tmp_path / "received", seed=1) as receiver:
        receiver.behave()
        hook = sink(receiver, "b3RoZXIgc2VjcmV0IG9mIGVub3VnaCBieXRlcw==")
        await hook.send(KEY, BODY)
        await hook.close()
    assert [one.signed for one in receiver.receipts] == [False]


async def test_bad_manners_are_drawn_and_the_sink_sees_them(tmp_path: Path) -> None:
    async with Receiver(tmp_path / "received", seed=2) as receiver:
        hook = sink(receiver)
        failed = 0
        for _ in range(200):
            try:
                await hook.send(KEY, BODY)
            except SourceFailed:
                failed += 1
        await hook.close()
    manners = Counter(one.manner for one in receiver.receipts)
    assert set(manners) == set(Manner)
    assert failed == 200 - manners[Manner.TAKEN]
    assert len(receiver.receipts) == 200


async def test_the_seed_decides_the_manners(tmp_path: Path) -> None:
    drawn = []
    for seed in (3, 3, 4):
        receiver = Receiver(tmp_path / "received", seed)
        drawn.append([receiver._manner() for _ in range(100)])  # noqa: SLF001 - what is drawn next
    assert drawn[0] == drawn[1] != drawn[2]
