"""What looks at decisions once they are durable: built here, run by the daemon."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Protocol

from triage.adapters.store import Store
from triage.app.current import Current
from triage.app.garbage import Garbage
from triage.app.settings import Settings
from triage.app.trial_parts import most_bytes, sandbox_trials
from triage.app.watch import watching
from triage.evaluation.judge import Marker
from triage.fallback.masking import Mask
from triage.ports import Clock
from triage.telemetry.metrics import Metrics
from triage.trial.limits import TrialLimits
from triage.trial.model import Ease, Trials, at_once
from triage.watching.shadow import Shadows
from triage.worker.worker import Watcher

SHADOW_NICE = 10  # of the sandbox that shadows run in: alerts come first
EVALUATE_S = 10.0  # of one shadow on one decision: what comes last may wait long for a processor
ANSWER_BYTES = TrialLimits().answer_bytes
EASE_S, EASES = 0.05, 25
"""For how long a shadow waits for alerts that are under way, and in how many looks."""


class Side(Watcher, Protocol):
    """One that has work to do beside the worker."""

    async def run(self) -> None:
        """Until `stop`. Raises only for a fault of this project."""

    def stop(self) -> None:
        """Ends `run` soon, with what it has written."""


def watchers(
    settings: Settings,
    *,
    store: Store,
    current: Current,
    metrics: Metrics,
    clock: Clock,
    is_draining: Callable[[], bool],
    marker: Marker,
    is_busy: Callable[[], bool],
) -> Mapping[str, Side]:
    """By the name of its task. Those that are switched off are not there. `marker` is told while a
    tool's code runs."""
    garbage = Garbage(is_busy=is_busy, calm=partial(calm, is_busy))
    sides: dict[str, Side] = {"garbage": garbage}
    if settings.shadow.enabled:
        sides["shadows"] = Shadows(
            tools=lambda: current.shadows,
            trials=lambda: shadow_trials(
                clock,
                answer_bytes=most_bytes(settings.sources),
                mask=Mask((), settings.secrets()),
                ease=garbage.ease,
            ),
            log=store.shadows,
            clock=clock,
            metrics=metrics.shadows,
            workers=settings.shadow.workers,
            max_waiting=settings.shadow.max_waiting,
            ease=garbage.ease,
        )
    if settings.watch.enabled:
        sides["watching"] = watching(
            settings,
            store=store,
            current=current,
            metrics=metrics.watch,
            clock=clock,
            is_draining=is_draining,
            marker=marker,
        )
    return sides


async def calm(is_busy: Callable[[], bool]) -> None:
    """Returns when no alert is being accepted or decided, and after EASE_S anyway: under a load
    without a gap shadows go on, if slowly, and what does not fit is counted as dropped."""
    await asyncio.sleep(0)
    for _ in range(EASES):
        if not is_busy():
            return
        await asyncio.sleep(EASE_S / EASES)


def shadow_trials(
    clock: Clock,
    *,
    answer_bytes: int = ANSWER_BYTES,
    mask: Mask | None = None,
    ease: Ease = at_once,
) -> AbstractAsyncContextManager[Trials]:
    """As `sandbox_trials`, in one that lets everything else go first. `answer_bytes` is the most
    that an answer may have had that was recorded."""
    limits = TrialLimits(evaluate_s=EVALUATE_S, load_s=EVALUATE_S, answer_bytes=answer_bytes)
    return sandbox_trials(clock, limits, mask=mask, nice=SHADOW_NICE, ease=ease)
