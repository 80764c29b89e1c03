"""The time that plan and messages go by.

It stands still while no replica has answered for a while: on a machine with too little to give, or
when everything was killed at once, faults would otherwise only ever meet processes that are still
starting, and prove nothing.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

PATIENCE_S = 2.0  # without any answer: so long it goes on, so that those who start are killed too
STEP_S = 0.02


class PlanClock:
    """`answering` tells whether any replica answers now. `now` is seconds of the plan.

    `longest_step_s` is the longest time between two looks at it: what this process had to wait for
    a processor, when it is more than STEP_S.
    """

    def __init__(
        self, answering: Callable[[], bool], monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self.stood_still_s = 0.0
        self.longest_step_s = 0.0
        self._now = 0.0
        self._answering = answering
        self._monotonic = monotonic
        self._last = monotonic()
        self._silent_s = 0.0

    @property
    def now(self) -> float:
        moment = self._monotonic()
        passed, self._last = moment - self._last, moment
        self.longest_step_s = max(self.longest_step_s, passed)
        self._silent_s = 0.0 if self._answering() else self._silent_s + passed
        if self._silent_s <= PATIENCE_S:
            self._now += passed
        else:
            self.stood_still_s += passed
        return self._now

    async def until(self, at_s: float) -> None:
        while self.now < at_s:  # noqa: ASYNC110 - there is no event, it is a clock
            await asyncio.sleep(STEP_S)
