"""What a million stored decisions cost: a large store against a small one, taking turns.

Both are opened as the daemon opens one, and asked through the ports. The small store is that of a
first day. The rare kinds are equally many in both, so a page of them holds as much. Both files are
read once before: a page that the system does not hold costs a read of the disk, a few milliseconds
on this or any store that is larger than the memory, and that is the disk's figure.
"""

from __future__ import annotations

import asyncio
import gc
import itertools
import shutil
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from bench.growth import specimen
from bench.growth.fill import Filled, fill
from bench.watching import Progress, unseen
from triage.adapters.store import Store
from triage.clock import SystemClock
from triage.model.decision import Decision
from triage.ports import CommitStatus, DecisionFilter

T = TypeVar("T")

DECISIONS = 1_000_000
SMALL = 1_000
ROUNDS = 100
WARM_UP_ROUNDS = 10
OPENS = 7
ALERTS = 4  # decided one by one by each store in a round
BURST = 32  # and all at once
PAGE = 100
DEEP = 500  # the deep page begins this many decisions before the end, or in the middle
READ_BYTES = 1 << 23
BYTES_EACH = 8_000  # of disk a decision needs, with room to spare

FILTERS: Mapping[str, DecisionFilter] = {
    "rare_outcome": DecisionFilter(outcome=specimen.RARE_OUTCOME),
    "rare_alarm": DecisionFilter(alarm=specimen.RARE_ALARM),
    "rare_site": DecisionFilter(site=specimen.RARE_SITE),
}
TWO_FILTERS = DecisionFilter(outcome=specimen.RARE_OUTCOME, site="site-1")
COMPARED = ("accept", "commit", "burst", "get", "list_first_page")
"""What both stores do and what must not grow. The deep page is measured against the first one of
the same store."""
RARE = tuple(f"list_{name}" for name in FILTERS)
"""Lists of fifty decisions that lie far apart in the large store: each costs it one more page of
the tree than the small one, whose upper levels are a page or two. Told apart from the rest."""
BESIDE = ("list_two_filters", "list_deep_page", "open", "full_ledger")
"""Told too. A full ledger counts all rows, and two filters read what only the rarer one names."""


class NoSpace(Exception):
    """The temporary folder's disk cannot hold the store; the message says what to do."""


@dataclass(slots=True, kw_only=True)
class Contender:
    """An open store of `decisions`, and how long it took, in milliseconds by what it did."""

    store: Store
    decisions: int
    deep_cursor: str
    added: int = 0
    seen: dict[str, list[float]] = field(default_factory=dict)

    @classmethod
    async def of(cls, store: Store, decisions: int) -> Contender:
        oldest = specimen.identity(min(DEEP, decisions // 2), decisions).decided_at
        page = await store.decisions.page(DecisionFilter(until=oldest), cursor="", limit=1)
        assert page.cursor, "nothing lies behind the deep page"
        return cls(store=store, decisions=decisions, deep_cursor=page.cursor)

    def p50(self, what: str) -> float:
        return statistics.median(self.seen[what])

    def steps(self) -> list[Callable[[], Awaitable[None]]]:
        """A round, in parts that contenders take turns in."""
        return [
            *(self._decide_one for _ in range(ALERTS)),
            self._decide_burst,
            self._get,
            partial(self._list, "list_first_page", DecisionFilter(), cursor=""),
            partial(self._list, "list_deep_page", DecisionFilter(), cursor=self.deep_cursor),
            *(
                partial(self._list, f"list_{name}", wanted, cursor="")
                for name, wanted in FILTERS.items()
            ),
            partial(self._list, "list_two_filters", TWO_FILTERS, cursor=""),
        ]

    async def full_ledger(self) -> None:
        ledger = await self._timed("full_ledger", self.store.ledger.ledger(full=True))
        assert ledger.balances, ledger
        assert ledger.decided == self.decisions + self.added

    async def _get(self) -> None:
        anyone = specimen.identity(self.added * 7919 % self.decisions, self.decisions)
        assert await self._timed("get", self.store.decisions.get(anyone.alert_id))

    async def _decide_one(self) -> None:
        one = self._next()
        bodies = specimen.evidence(one)
        made = specimen.decision(one, bodies)
        await self._timed("accept", self.store.alerts.accept([specimen.arrival(one)]))
        received = await self.store.queue.receive(limit=1, wait_s=0)
        await self.store.alerts.begin_attempt(one.alert_id)
        await self._timed("commit", self._commit(one, made, bodies))
        await self.store.queue.settle(acked=received)
        await self._deliver()

    async def _decide_burst(self) -> None:
        await self._timed("burst", self._burst(), BURST)

    async def _burst(self) -> None:
        """As intake and worker do it when many come at once: every step shares its commits."""
        store = self.store
        ones = [self._next() for _ in range(BURST)]
        await asyncio.gather(*(store.alerts.accept([specimen.arrival(one)]) for one in ones))
        received = await store.queue.receive(limit=BURST, wait_s=0)
        await asyncio.gather(*(store.alerts.begin_attempt(one.alert_id) for one in ones))
        bodies = [specimen.evidence(one) for one in ones]
        made = [specimen.decision(one, body) for one, body in zip(ones, bodies, strict=True)]
        await asyncio.gather(*map(self._commit, ones, made, bodies))
        await store.queue.settle(acked=received)
        await self._deliver()

    async def _commit(
        self, one: specimen.Identity, made: Decision, bodies: Mapping[str, bytes]
    ) -> None:
        message = specimen.message(one, made)
        status = await self.store.decisions.commit(made, bodies, [message])
        assert status is CommitStatus.COMMITTED

    async def _deliver(self) -> None:
        outbox = self.store.outbox
        due = await outbox.due(specimen.SINK, now=SystemClock().now(), limit=BURST)
        await outbox.delivered([row.row for row in due])

    async def _list(self, what: str, wanted: DecisionFilter, *, cursor: str) -> None:
        await self._timed(what, self.store.decisions.page(wanted, cursor=cursor, limit=PAGE))

    def _next(self) -> specimen.Identity:
        self.added += 1
        return specimen.identity(self.decisions + self.added, self.decisions)

    async def _timed(self, what: str, act: Awaitable[T], each: int = 1) -> T:
        began = time.perf_counter()
        answer = await act
        took = time.perf_counter() - began
        self.seen.setdefault(what, []).append(took * 1000 / each)
        return answer


def measure_store(
    decisions: int = DECISIONS,
    progress: Progress = unseen,
    *,
    small: int = SMALL,
    rounds: int = ROUNDS,
) -> dict[str, Any]:
    """Milliseconds, p50, of both stores, and their ratios. `progress` counts the filled decisions
    first, and then the rounds as so many decisions more. The store is in a temporary folder,
    which is removed. Raises NoSpace."""
    weight = max(decisions // (4 * rounds), 1)  # of a round: the filling takes most of the time
    total = decisions + rounds * weight
    with tempfile.TemporaryDirectory(prefix="triage-bench-") as name:
        folder = Path(name)
        _check_space(folder, decisions)
        filled = fill(folder / "large.db", decisions, lambda done, _of: progress(done, total))
        fill(folder / "small.db", small, unseen)
        return _figures(
            decisions,
            filled,
            asyncio.run(
                compare(
                    {
                        "large": (folder / "large.db", decisions),
                        "small": (folder / "small.db", small),
                    },
                    rounds,
                    lambda done: progress(decisions + done * weight, total),
                )
            ),
        )


async def compare(
    stores: Mapping[str, tuple[Path, int]], rounds: int, progress: Callable[[int], None]
) -> dict[str, Contender]:
    """`stores` maps a name to a filled file and how many decisions it has."""
    for path, _ in stores.values():
        await asyncio.to_thread(_read_once, path)
    opened = {name: await _open_times(path) for name, (path, _) in stores.items()}
    contenders = {}
    try:
        for name, (path, decisions) in stores.items():
            store = await Store.open(path, clock=SystemClock())
            contenders[name] = await Contender.of(store, decisions)
        for index in range(WARM_UP_ROUNDS + rounds):
            if index == WARM_UP_ROUNDS:
                gc.collect()
                for contender in contenders.values():
                    contender.seen.clear()
            # Neither always runs in what the other has just left in the caches.
            turns = list(contenders.values())
            if index % 2:
                turns.reverse()
            for together in zip(*(contender.steps() for contender in turns), strict=True):
                for step in together:
                    await step()
            progress(max(0, index + 1 - WARM_UP_ROUNDS))
        for name, contender in contenders.items():
            contender.seen["open"] = opened[name]
            await contender.full_ledger()
    finally:
        for contender in contenders.values():
            await contender.store.close()
    return contenders


async def _open_times(path: Path) -> list[float]:
    """Milliseconds from nothing to an open store that has told its ledger."""
    times = []
    for _ in range(OPENS):
        began = time.perf_counter()
        store = await Store.open(path, clock=SystemClock())
        await store.ledger.ledger()
        times.append((time.perf_counter() - began) * 1000)
        await store.close()
    return times


def _read_once(path: Path) -> None:
    with path.open("rb", buffering=0) as file:
        while file.read(READ_BYTES):
            pass


def _check_space(folder: Path, decisions: int) -> None:
    needed, free = decisions * BYTES_EACH, shutil.disk_usage(folder).free
    if free < needed:
        raise NoSpace(
            f"{folder.parent} has {free / 1e9:.1f} GB free and {decisions} decisions need "
            f"{needed / 1e9:.1f}: set TMPDIR to a folder with more, or ask for fewer decisions"
        )


def _figures(decisions: int, filled: Filled, seen: Mapping[str, Contender]) -> dict[str, Any]:
    large, small = seen["large"], seen["small"]
    ratios = {what: large.p50(what) / small.p50(what) for what in COMPARED}
    ratios["deep_page"] = large.p50("list_deep_page") / large.p50("list_first_page")
    figures: dict[str, Any] = {"store_1m_ratio": round(max(ratios.values()), 3)}
    rare = {what: large.p50(what) / small.p50(what) for what in RARE}
    figures["store_1m_rare_lists_ratio"] = round(max(rare.values()), 3)
    ratios |= rare
    figures |= {f"store_1m_{what}_ratio": round(value, 3) for what, value in ratios.items()}
    for (name, contender), what in itertools.product(seen.items(), (*COMPARED, *RARE, *BESIDE)):
        figures[f"{name}_{what}_p50_ms"] = round(contender.p50(what), 4)
    return {
        **figures,
        "decisions": decisions,
        "decisions_small": small.decisions,
        "evidence_bodies": filled.evidence,
        "file_mb": round(filled.file_bytes / 1e6, 1),
        "file_bytes_per_decision": round(filled.file_bytes / decisions),
        "fill_s": round(filled.seconds, 1),
        "fill_per_s": round(decisions / filled.seconds),
    }
