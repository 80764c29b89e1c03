"""Old things are deleted again and again, and a store in trouble ends nothing."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from tests.unit.evaluation.virtual_time import START, LoopClock, on_virtual_time
from tests.unit.worker.bench import LOST, until
from triage.app.delivery_sections import StoreSection
from triage.app.retention import EVERY_S, retain
from triage.ports import Purged


@dataclass(slots=True)
class Purging:
    calls: list[tuple[str, datetime, int | None]] = field(default_factory=list)
    failures: int = 0

    async def purge_evidence(self, *, older_than: datetime, max_bytes: int) -> int:
        self.calls.append(("evidence", older_than, max_bytes))
        if self.failures:
            self.failures -= 1
            raise LOST
        return 3

    async def purge(self, *, older_than: datetime, max_bytes: int | None) -> Purged:
        self.calls.append(("all", older_than, max_bytes))
        return Purged(decisions=1)


SECTION = StoreSection.model_validate(
    {"evidence_days": 7, "evidence_max_bytes": 1000, "keep_days": 90, "max_bytes": 5000}
)


@on_virtual_time
async def test_both_limits_are_those_of_the_configuration() -> None:
    purging = Purging()
    task = asyncio.create_task(retain(purging, SECTION, LoopClock()))
    await until(lambda: len(purging.calls) == 2)
    assert purging.calls == [
        ("evidence", START - timedelta(days=7), 1000),
        ("all", START - timedelta(days=90), 5000),
    ]
    task.cancel()
    await asyncio.wait([task])


@on_virtual_time
async def test_it_goes_on_for_ever_whatever_the_store_says() -> None:
    purging = Purging(failures=2)
    task = asyncio.create_task(retain(purging, SECTION, LoopClock()))
    await until(lambda: len(purging.calls) == 4, within_s=4 * EVERY_S)
    assert [what for what, *_ in purging.calls] == ["evidence", "evidence", "evidence", "all"]
    assert 1.6 * EVERY_S <= asyncio.get_running_loop().time() <= 2.4 * EVERY_S + 1
    task.cancel()
    await asyncio.wait([task])
