"""What no queue holds is published again, at an even pace and never twice for one outage."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import pairwise

from tests.unit.evaluation.virtual_time import on_virtual_time, settled
from tests.unit.worker.bench import GONE, passed, until
from tests.unit.worker.fakes import Record
from triage.model.alert import AlertId, Severity
from triage.worker.sweeper import SWEEP_LIMIT, Sweeper

SWEEP_S = 10.0


@asynccontextmanager
async def sweeping(
    record: Record, *, jitter: float = 0.5
) -> AsyncIterator[tuple[Sweeper, list[int]]]:
    published: list[int] = []
    sweeper = Sweeper(
        queue=record.queue,
        alerts=record,
        sweep_s=SWEEP_S,
        on_sweep=published.append,
        jitter=lambda: jitter,
    )
    task = asyncio.create_task(sweeper.run())
    try:
        yield sweeper, published
    finally:
        task.cancel()
        await asyncio.wait([task])


class Asked(Record):
    """Notes when the sweeper asked, and does `meanwhile` in the first `wake_all`."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[float] = []
        self.meanwhile: Callable[[], None] | None = None

    async def to_wake(self, *, limit: int) -> list[tuple[AlertId, Severity]]:
        self.asked.append(asyncio.get_running_loop().time())
        return await Record.to_wake(self, limit=limit)

    async def wake_all(self) -> None:
        meanwhile, self.meanwhile = self.meanwhile, None
        if meanwhile is not None:
            meanwhile()
        await Record.wake_all(self)


def names(count: int) -> list[str]:
    return [f"{n:032x}" for n in range(count)]


@on_virtual_time
async def test_a_backlog_is_swept_to_its_end_in_one_go() -> None:
    record = Record(wait_s=0)
    record.add(*names(2 * SWEEP_LIMIT + 1), enqueue=False)
    record.wait_s = 1000
    async with sweeping(record) as (_, published):
        await settled()
        assert asyncio.get_running_loop().time() == 0
    assert published == [SWEEP_LIMIT, SWEEP_LIMIT, 1]
    assert len(record.queue.entries) == 2 * SWEEP_LIMIT + 1


@on_virtual_time
async def test_replicas_that_started_together_do_not_sweep_together() -> None:
    gaps = []
    for jitter in (0.0, 0.5, 1.0):
        record = Asked()
        async with sweeping(record, jitter=jitter):
            await passed(5 * SWEEP_S)
        gaps.append({round(b - a, 3) for a, b in pairwise(record.asked)})
    assert gaps == [{0.8 * SWEEP_S}, {SWEEP_S}, {1.2 * SWEEP_S}]


@on_virtual_time
async def test_what_could_not_be_published_is_tried_again_before_anything_else_is_asked_for() -> (
    None
):
    """The store has put it off, by as long as it has waited."""
    record = Record(wait_s=0)
    record.add(*names(3), enqueue=False)
    record.wait_s = 10_000
    record.failures["publish"] = [GONE] * 4
    async with sweeping(record) as (_, published):
        await until(lambda: bool(record.queue.entries), within_s=30)
    assert published == [3]
    assert len(record.queue.entries) == 3


@on_virtual_time
async def test_a_queue_that_works_again_is_told_at_once() -> None:
    record = Record(wait_s=0)
    async with sweeping(record) as (sweeper, published):
        await settled()
        record.add(*names(1), enqueue=False)
        sweeper.hurry()
        await settled()
        assert published == [1]
        assert asyncio.get_running_loop().time() == 0


@on_virtual_time
async def test_starting_over_while_it_starts_over_is_not_forgotten() -> None:
    record = Asked()
    async with sweeping(record) as (sweeper, _):
        await settled()
        record.meanwhile = sweeper.start_over
        sweeper.start_over()
        await settled()
        assert record.woken == 2
