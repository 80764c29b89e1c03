"""What is old goes, and the oldest when the whole is too large, so that the store stops growing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial

from triage.adapters.store.evidence import purge_some
from triage.adapters.store.purging import (
    BEFORE_ALL,
    BEFORE_ALL_EPISODES,
    EpisodeKey,
    Step,
    ended_episodes,
    purge_cases,
    purge_decided,
    purge_deliveries,
    purge_discarded,
    purge_episodes,
    purge_events,
    purge_gaps,
    with_old_cases,
)
from triage.adapters.store.purging_watched import (
    purge_comparisons,
    purge_findings,
    purge_left_over,
)
from triage.adapters.store.readers import Readers
from triage.adapters.store.schema import to_us
from triage.adapters.store.size import used_bytes
from triage.adapters.store.transaction import Transaction
from triage.adapters.store.writer import Simple, Writer
from triage.ports import Clock, Purged

_EVIDENCE_STEP = 200  # bodies deleted in one transaction, so that commits get in between
_YOUNG = timedelta(hours=1)  # what was decided since is never too much
_REPEATED = timedelta(days=2)  # `seen_at` is kept to the day
_EPISODE_STEPS = 20  # of one run: the next one goes on where it ended


@dataclass(slots=True, kw_only=True)
class StoreRetention:
    """See `triage.ports.Retention`.

    An alert that was purged and is sent again is new to the store, and decided once more. Delivery
    keys, events, cases of gaps, comparisons of shadows and closed findings go by their own age, and
    so does what the store knows of a fingerprint's episodes, once none is open and no alert is
    left: the next one is then the first again, under an id that was used before.
    """

    writer: Writer
    readers: Readers
    clock: Clock
    _episode: EpisodeKey = BEFORE_ALL_EPISODES

    async def purge_evidence(self, *, older_than: datetime, max_bytes: int) -> int:
        """Cancellation safe: what is deleted stays so."""
        before = to_us(older_than)

        def step(transaction: Transaction) -> int:
            return purge_some(transaction, before, max_bytes, _EVIDENCE_STEP)

        return await self._until_none(step)

    async def purge(self, *, older_than: datetime, max_bytes: int | None) -> Purged:
        """For size alone nothing goes that was decided within the last hour; nor does what its
        sender repeated within two days, which fires still: it would be decided, and acted upon,
        a second time. `max_bytes` is about what `used_bytes` says. Events, delivery keys and
        cases as old as the decisions that went go with them."""
        purged = await self._older(to_us(older_than))
        if max_bytes is not None:
            for_size = await self._larger(max_bytes)
            purged = replace(
                purged,
                decisions=purged.decisions + for_size.decisions,
                gap_cases=purged.gap_cases + for_size.gap_cases,
                deliveries=purged.deliveries + for_size.deliveries,
                events=purged.events + for_size.events,
                comparisons=purged.comparisons + for_size.comparisons,
            )
        return purged

    async def _older(self, before: int) -> Purged:
        decisions = await self._alerts(purge_decided, before)
        decisions += await self._alerts(purge_discarded, before)
        events = await self._until_none(partial(purge_events, before=before))
        deliveries = await self._until_none(partial(purge_deliveries, before=before))
        gap_cases = await self._gaps(before)
        comparisons = await self._until_none(partial(purge_comparisons, before=before))
        findings = await self._until_none(partial(purge_findings, before=before))
        left_over = partial(purge_left_over, before=before)
        await self.writer.run(Simple(left_over), durable=False, background=True)
        await self._episodes(before)
        return Purged(
            decisions=decisions,
            gap_cases=gap_cases,
            deliveries=deliveries,
            events=events,
            comparisons=comparisons,
            findings=findings,
        )

    async def _larger(self, max_bytes: int) -> Purged:
        now = self.clock.now()
        young, silent_since = to_us(now - _YOUNG), to_us(now - _REPEATED)
        purged = Purged()
        after, discarded_after = BEFORE_ALL, BEFORE_ALL

        def step(transaction: Transaction) -> tuple[Step, Step, Purged] | None:
            if used_bytes(transaction) <= max_bytes:
                return None
            decided = purge_decided(
                transaction, after=after, before=young, silent_since=silent_since
            )
            # What is as old as these.
            before = young if decided.last is None else decided.last[0]
            discarded = purge_discarded(
                transaction, after=discarded_after, before=before, silent_since=silent_since
            )
            removed = Purged(
                decisions=decided.removed + discarded.removed,
                deliveries=purge_deliveries(transaction, before),
                events=purge_events(transaction, before),
            )
            return decided, discarded, removed

        while (
            done := await self.writer.run(Simple(step), durable=False, background=True)
        ) is not None:
            decided, discarded, removed = done
            purged = replace(
                purged,
                decisions=purged.decisions + removed.decisions,
                deliveries=purged.deliveries + removed.deliveries,
                events=purged.events + removed.events,
            )
            if decided.last is None and discarded.last is None and not removed.anything:
                break
            after = decided.last or after
            discarded_after = discarded.last or discarded_after
        if after != BEFORE_ALL:
            old_comparisons = partial(purge_comparisons, before=after[0])
            purged = replace(
                purged,
                gap_cases=await self._gaps(after[0]),
                comparisons=await self._until_none(old_comparisons),
            )
        return purged

    async def _alerts(self, purge: Callable[..., Step], before: int) -> int:
        after, removed = BEFORE_ALL, 0
        while True:
            step = partial(purge, after=after, before=before, silent_since=before)
            done = await self.writer.run(Simple(step), durable=False, background=True)
            if done.last is None:
                return removed
            removed += done.removed
            after = done.last

    async def _gaps(self, before: int) -> int:
        """Cases older than that, and then closed gaps that have none left."""
        removed = 0
        for gap_id in await self.readers.run(partial(with_old_cases, before=before)):
            removed += await self._until_none(partial(purge_cases, gap_id=gap_id, before=before))
        await self._until_none(partial(purge_gaps, before=before))
        return removed

    async def _episodes(self, before: int) -> None:
        """The next some thousand fingerprints, over several runs all of them."""
        for _ in range(_EPISODE_STEPS):
            find = partial(ended_episodes, after=self._episode, before=before)
            ended, last = await self.readers.run(find)
            if ended:
                step = partial(purge_episodes, keys=ended, before=before)
                await self.writer.run(Simple(step), durable=False, background=True)
            self._episode = last or BEFORE_ALL_EPISODES
            if last is None:
                return

    async def _until_none(self, step: Callable[[Transaction], int]) -> int:
        removed = 0
        while done := await self.writer.run(Simple(step), durable=False, background=True):
            removed += done
        return removed
