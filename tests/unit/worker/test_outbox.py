"""Each message until it is taken, refused for good or too old; always the same body."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import pairwise

import pytest

from tests.unit.evaluation.virtual_time import START, LoopClock, on_virtual_time, settled
from tests.unit.evaluation.world import new_metrics, sample
from tests.unit.worker.bench import passed, until
from triage.errors import (
    DeliveryRejected,
    Overloaded,
    SourceFailed,
    SourceFailure,
    StoreError,
)
from triage.model.alert import AlertId
from triage.ports import OutboxRow
from triage.telemetry.metrics import Metrics
from triage.worker.outbox import OutboxOptions, OutboxSender

LOST = StoreError("disk full")
DOWN = SourceFailed(SourceFailure.CONNECT, "refused")


@dataclass(slots=True)
class Post:
    row: int
    posted_at: datetime
    due_at: datetime
    attempts: int = 0
    state: str = "pending"
    error: str = ""


class Outbox:
    """Implements `ports.Outbox`, and fails when told to."""

    def __init__(self) -> None:
        self.posts: dict[int, Post] = {}
        self.failures: dict[str, list[Exception]] = {}
        self.limits: list[int] = []

    def add(self, count: int = 1, *, age_s: float = 0.0) -> None:
        for _ in range(count):
            row = len(self.posts) + 1
            posted_at = LoopClock().now() - timedelta(seconds=age_s)
            self.posts[row] = Post(row, posted_at, posted_at)

    def states(self) -> list[str]:
        return [post.state for post in self.posts.values()]

    def _fail(self, method: str) -> None:
        if left := self.failures.get(method):
            raise left.pop(0)

    async def due(self, sink: str, *, now: datetime, limit: int) -> list[OutboxRow]:
        await asyncio.sleep(0)
        self._fail("due")
        self.limits.append(limit)
        pending = [p for p in self.posts.values() if p.state == "pending" and p.due_at <= now]
        return [
            OutboxRow(
                row=p.row,
                alert_id=AlertId(f"a{p.row}"),
                key=f"{sink}:{p.row}",
                body=b"body %d" % p.row,
                attempts=p.attempts,
                posted_at=p.posted_at,
            )
            for p in sorted(pending, key=lambda p: (p.due_at, p.row))[:limit]
        ]

    async def delivered(self, rows: Sequence[int]) -> None:
        self._fail("delivered")
        for row in rows:
            self.posts[row].state = "delivered"

    async def postpone(self, row: int, *, until: datetime, error: str) -> None:
        self._fail("postpone")
        post = self.posts[row]
        post.due_at, post.error = until, error
        post.attempts += 1

    async def give_up(self, row: int, *, error: str) -> None:
        self._fail("give_up")
        post = self.posts[row]
        post.state, post.error = "given_up", error


class Sink:
    """Implements `ports.Sink`. Notes what was sent when; raises what it is told to, in turn."""

    name = "hook"

    def __init__(self, *failures: Exception) -> None:
        self.sent: list[tuple[float, str, bytes]] = []
        self.failures = list(failures)
        self.always: Exception | None = None
        self.gate: asyncio.Event | None = None
        self.under_way = 0
        self.most = 0

    async def send(self, key: str, body: bytes) -> None:
        self.sent.append((round(LoopClock().monotonic(), 3), key, body))
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        try:
            await (self.gate.wait() if self.gate else asyncio.sleep(0))
        finally:
            self.under_way -= 1
        if self.always is not None:
            raise self.always
        if self.failures:
            raise self.failures.pop(0)

    async def close(self) -> None:
        """Nothing is open."""

    def times(self, row: int = 1) -> list[float]:
        return [at for at, key, _ in self.sent if key == f"hook:{row}"]


@dataclass(slots=True, kw_only=True)
class Bench:
    sink: Sink = field(default_factory=Sink)
    outbox: Outbox = field(default_factory=Outbox)
    options: OutboxOptions = field(default_factory=OutboxOptions)
    jitter: Callable[[], float] = lambda: 1.0
    metrics: Metrics = field(default_factory=new_metrics)

    def sender(self) -> OutboxSender:
        return OutboxSender(
            sink=self.sink,
            outbox=self.outbox,
            clock=LoopClock(),
            metrics=self.metrics.sinks.cell("hook"),
            options=self.options,
            jitter=self.jitter,
        )

    @asynccontextmanager
    async def running(self) -> AsyncIterator[OutboxSender]:
        sender = self.sender()
        task = asyncio.create_task(sender.run())
        try:
            yield sender
            sender.stop()
            await task
        finally:
            task.cancel()
            await asyncio.wait([task])

    async def run_out(self, within_s: float = 1e6) -> None:
        async with self.running():
            await until(lambda: "pending" not in self.outbox.states(), within_s=within_s)

    def counted(self, result: str) -> float:
        return sample(self.metrics, "triage_sink_deliveries_total", sink="hook", result=result)


@on_virtual_time
async def test_what_is_due_is_sent_once_and_marked() -> None:
    bench = Bench()
    bench.outbox.add(10)
    await bench.run_out()
    assert sorted(key for _, key, _ in bench.sink.sent) == sorted(f"hook:{n}" for n in range(1, 11))
    assert bench.outbox.states() == ["delivered"] * 10
    assert bench.counted("delivered") == 10


@on_virtual_time
async def test_at_most_so_many_at_once() -> None:
    bench = Bench(options=OutboxOptions(concurrency=3))
    bench.outbox.add(20)
    bench.sink.gate = asyncio.Event()
    async with bench.running():
        await passed(5)
        assert bench.sink.most == 3
        bench.sink.gate.set()
        await until(lambda: "pending" not in bench.outbox.states())
    assert bench.sink.most == 3
    assert set(bench.outbox.limits) == {3}


@on_virtual_time
async def test_waits_double_up_to_a_limit() -> None:
    bench = Bench(options=OutboxOptions(first_retry_s=1, last_retry_s=10))
    bench.sink.failures = [DOWN] * 7
    bench.outbox.add()
    await bench.run_out()
    times = bench.sink.times()
    waits = [round(b - a) for a, b in pairwise(times)]
    # Looked for once a second: a wait may be one longer.
    for wait, wanted in zip(waits, [1, 2, 4, 8, 10, 10, 10], strict=True):
        assert wanted <= wait <= wanted + 1
    assert {body for _, _, body in bench.sink.sent} == {b"body 1"}
    assert (bench.counted("retried"), bench.counted("delivered")) == (7, 1)


@pytest.mark.parametrize(("jitter", "least", "most"), [(0.0, 4, 5), (1.0, 8, 9)])
@on_virtual_time
async def test_half_of_a_wait_is_at_random(jitter: float, least: float, most: float) -> None:
    bench = Bench(options=OutboxOptions(first_retry_s=8), jitter=lambda: jitter)
    bench.sink.failures = [DOWN]
    bench.outbox.add()
    await bench.run_out()
    first, second = bench.sink.times()
    assert least <= second - first <= most


@on_virtual_time
async def test_a_receiver_that_says_when_is_heeded() -> None:
    bench = Bench()
    bench.sink.failures = [Overloaded("busy", 30)]
    bench.outbox.add()
    await bench.run_out()
    first, second = bench.sink.times()
    assert 30 <= second - first <= 31


@on_virtual_time
async def test_a_receiver_cannot_make_it_come_sooner_than_it_would() -> None:
    bench = Bench(options=OutboxOptions(first_retry_s=8))
    bench.sink.failures = [Overloaded("busy", 0)]
    bench.outbox.add()
    await bench.run_out()
    first, second = bench.sink.times()
    assert second - first >= 8


@on_virtual_time
async def test_what_is_refused_for_good_is_given_up_at_once() -> None:
    bench = Bench()
    bench.sink.failures = [DeliveryRejected("410 Gone")]
    bench.outbox.add(2)
    await bench.run_out()
    assert sorted(bench.outbox.states()) == ["delivered", "given_up"]
    assert len(bench.sink.sent) == 2
    assert (bench.counted("rejected"), bench.counted("given_up")) == (1, 0)
    (given_up,) = [p for p in bench.outbox.posts.values() if p.state == "given_up"]
    assert given_up.error == "DeliveryRejected: 410 Gone"


@on_virtual_time
async def test_what_fails_when_it_is_too_old_is_given_up() -> None:
    bench = Bench(options=OutboxOptions(max_age_s=60, first_retry_s=5, last_retry_s=20))
    bench.sink.always = DOWN
    bench.outbox.add()
    await bench.run_out()
    assert bench.outbox.states() == ["given_up"]
    assert 60 < LoopClock().monotonic() < 90
    assert bench.counted("given_up") == 1


@on_virtual_time
async def test_what_is_old_is_still_tried_once() -> None:
    """After a day off, what a receiver would take is not thrown away unsent."""
    bench = Bench(options=OutboxOptions(max_age_s=60))
    bench.outbox.add(age_s=86_400)
    await bench.run_out()
    assert bench.outbox.states() == ["delivered"]


@on_virtual_time
async def test_a_bad_message_does_not_hold_up_the_others() -> None:
    class Picky(Sink):
        async def send(self, key: str, body: bytes) -> None:
            await super().send(key, body)
            if key == "hook:1":
                raise DOWN

    bench = Bench(sink=Picky(), options=OutboxOptions(concurrency=1))
    bench.outbox.add(5)
    async with bench.running():
        await until(lambda: bench.outbox.states().count("delivered") == 4, within_s=5)


@on_virtual_time
async def test_a_fault_of_the_sink_itself_is_retried_and_ends_nothing() -> None:
    bench = Bench()
    bench.sink.failures = [ZeroDivisionError("ours")]
    bench.outbox.add(3)
    await bench.run_out()
    assert bench.outbox.states() == ["delivered"] * 3
    assert bench.counted("retried") == 1


@pytest.mark.parametrize("method", ["due", "delivered", "postpone", "give_up"])
@on_virtual_time
async def test_a_store_that_fails_means_sending_again_and_not_at_full_speed(method: str) -> None:
    bench = Bench()
    bench.outbox.failures[method] = [LOST] * 20
    if method == "postpone":
        bench.sink.failures = [DOWN] * 20
    if method == "give_up":
        bench.sink.failures = [DeliveryRejected("no")] * 21
    bench.outbox.add()
    await bench.run_out()
    assert bench.outbox.states() == ["given_up" if method == "give_up" else "delivered"]
    assert {body for _, _, body in bench.sink.sent} == {b"body 1"}
    assert LoopClock().monotonic() >= 19, "a second between two tries"


@on_virtual_time
async def test_a_wake_is_acted_on_at_once() -> None:
    bench = Bench()
    async with bench.running() as sender:
        await passed(0.5)
        bench.outbox.add()
        sender.wake()
        await settled()
        assert bench.outbox.states() == ["delivered"]
    assert bench.sink.times() == [0.5]


@on_virtual_time
async def test_a_wake_during_a_send_is_not_lost() -> None:
    bench = Bench(options=OutboxOptions(concurrency=1))
    bench.sink.gate = asyncio.Event()
    bench.outbox.add()
    async with bench.running() as sender:
        await settled()
        bench.outbox.add()
        sender.wake()
        bench.sink.gate.set()
        await settled()
        assert bench.outbox.states() == ["delivered"] * 2
        assert LoopClock().monotonic() == 0


@on_virtual_time
async def test_without_a_wake_what_is_due_is_found_within_a_second() -> None:
    bench = Bench()
    async with bench.running():
        await passed(0.1)
        bench.outbox.add()
        await until(lambda: bench.outbox.states() == ["delivered"], within_s=1.1)


@on_virtual_time
async def test_stop_waits_for_the_sends_under_way_and_starts_no_more() -> None:
    bench = Bench(options=OutboxOptions(concurrency=2))
    bench.sink.gate = asyncio.Event()
    bench.outbox.add(5)
    sender = bench.sender()
    running = asyncio.create_task(sender.run())
    await settled()
    sender.stop()
    await passed(3)
    assert not running.done()
    bench.sink.gate.set()
    await running
    assert bench.outbox.states().count("delivered") == 2
    assert LoopClock().now() > START
