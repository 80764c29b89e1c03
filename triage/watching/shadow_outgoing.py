"""Comparisons on their way to the record."""

from __future__ import annotations

from collections import deque
from datetime import datetime

import structlog

from triage.errors import StoreError
from triage.model.alert import AlertId
from triage.ports import Compared, Comparison, Pair, ShadowLog
from triage.trial.model import Ease, at_once

WRITTEN_AT_ONCE = 20  # about a millisecond of the store's one writer, that alerts wait for too
DROPPED_AT_ONCE = 200  # likewise: they are only counted


class _Dropped:
    """Of one pair, not yet written."""

    __slots__ = ("count", "first", "last")

    def __init__(self, first: Comparison) -> None:
        self.first = self.last = first
        self.count = 0


class Outgoing:
    """Keeps what the store has not taken: comparisons, at most `most` of them, and of what was
    dropped the count. The oldest beyond that are dropped."""

    def __init__(self, log: ShadowLog, *, most: int) -> None:
        self._log = log
        self._most = most
        self._kept: deque[Comparison] = deque()
        self._dropped: dict[Pair, _Dropped] = {}
        self._logger = structlog.get_logger("triage.shadow")

    @property
    def room(self) -> int:
        """For how many more comparisons before the oldest is dropped."""
        return self._most - len(self._kept)

    def keep(self, comparison: Comparison) -> None:
        self._kept.append(comparison)
        self._bound()

    def drop(self, pair: Pair, alert_id: AlertId, at: datetime) -> None:
        one = Comparison(pair=pair, result=Compared.DROPPED, alert_id=alert_id, at=at)
        dropped = self._dropped.get(pair)
        if dropped is None:
            dropped = self._dropped[pair] = _Dropped(one)
        dropped.last = one
        dropped.count += 1

    async def write(self, ease: Ease = at_once) -> None:
        """All there is, unless the store fails: then what is left is for the next time. `ease` is
        awaited before each part, so that alerts come first."""
        while self._kept or self._dropped:
            await ease()
            some = self._take()
            try:
                await self._log.compared(some)
            except StoreError as error:
                self._logger.warning("shadow_not_written", comparisons=len(some), error=str(error))
                self._put_back(some)
                return

    def _take(self) -> list[Comparison]:
        some = [self._kept.popleft() for _ in range(min(WRITTEN_AT_ONCE, len(self._kept)))]
        room = DROPPED_AT_ONCE
        for pair in list(self._dropped):
            if not room:
                break
            dropped = self._dropped[pair]
            if dropped.count <= room:
                del self._dropped[pair]
            # The first and the last, for the times of the count, and as many as there were.
            taken = min(room, dropped.count)
            dropped.count -= taken
            room -= taken
            some += [dropped.first] * (taken - 1) + [dropped.last]
        return some

    def _put_back(self, some: list[Comparison]) -> None:
        for one in reversed(some):
            if one.result is Compared.DROPPED:
                self.drop(one.pair, one.alert_id, one.at)
            else:
                self._kept.appendleft(one)
        self._bound()

    def _bound(self) -> None:
        while len(self._kept) > self._most:
            oldest = self._kept.popleft()
            self.drop(oldest.pair, oldest.alert_id, oldest.at)
