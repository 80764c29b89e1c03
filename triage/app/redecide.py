"""Decides alerts again from recorded answers: no source is opened, no fallback is asked."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace

from prometheus_client import CollectorRegistry

from triage.adapters.recorded import Lookup, RecordedSource
from triage.app.oneoff import OwnLane
from triage.app.procedure import Loaded
from triage.engine.engine import Decided, Engine, EngineOptions
from triage.engine.snapshot import snapshot
from triage.evaluation.guard import GuardedSource, SourceLimits
from triage.evaluation.judge import NoMark
from triage.model.alert import Alert
from triage.ports import Clock
from triage.telemetry.decision_metrics import NodeMetrics
from triage.telemetry.edge_metrics import SourceMetrics

UNBOUNDED = sys.maxsize
"""A recording is neither busy nor down, and its answers were within the bounds of their time."""


class Redecider:
    """Decides alerts again, from recorded answers, against one SOP, sites file and library.

    The same alert and answers give the same decision, `evaluated_at` and times taken aside. Of
    `options` only a deadline can change one: give it room, a recording has no latency to bound.
    Decides any number of alerts at once.
    """

    def __init__(self, loaded: Loaded, clock: Clock, *, options: EngineOptions) -> None:
        registry = CollectorRegistry()
        self._monotonic = clock.monotonic
        self._source_metrics = SourceMetrics.register(registry)
        self._engine = Engine(
            options=options,
            clock=clock,
            marker=NoMark(),
            metrics=NodeMetrics.register(registry),
        )
        self._limits = SourceLimits(
            timeout_s=options.deadline_s,
            max_concurrency=UNBOUNDED,
            max_answer_bytes=UNBOUNDED,
            # A failure that was recorded tells nothing of the next query or alert.
            breaker_failures=UNBOUNDED,
        )
        self._snapshot = snapshot(loaded.sop, loaded.sites, loaded.library, {})
        self._sources = sorted({s for node in loaded.sop.nodes.values() for s in node.sources})

    async def decide(self, alert: Alert, bodies: Mapping[str, bytes] | Lookup) -> Decided:
        """`bodies` finds an encoded answer by the SHA-256 of its query; it may be a `Recording`.

        A node that asks what `bodies` lacks fails as `unrecorded`. Safe to cancel. An error of a
        lookup that is neither SourceFailed nor ToolFailed is not the node's: it is raised.
        """
        sources = {
            name: GuardedSource(
                RecordedSource(name, bodies),
                self._limits,
                self._source_metrics.cell(name),
                self._monotonic,
            )
            for name in self._sources
        }
        return await self._engine.decide(
            alert, replace(self._snapshot, sources=sources), lane=OwnLane()
        )
