"""Alerts decided by the real engine, each with a library of its own, and what agents did for it."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from bench.ranks import nearest_rank
from triage.app.procedure import Loaded
from triage.clock import SystemClock
from triage.engine.engine import Decided, Engine, EngineOptions
from triage.engine.snapshot import downstream, snapshot
from triage.evaluation.guard import GuardedSource
from triage.evaluation.judge import NoMark
from triage.library.catalogue import Library
from triage.model.alert import Alert
from triage.model.decision import AnsweredBy, Decision, NodeId, NodeResult
from triage.model.trace import VERDICT
from triage.ports import Fallback
from triage.telemetry.metrics import Metrics
from triage.worker.lanes import Lanes


class Walked(NamedTuple):
    """`seconds` is the time of the decision, without store."""

    decided: Decided
    seconds: float

    @property
    def decision(self) -> Decision:
        return self.decided.decision


class Walker:
    """One alert at a time. Sources are open and reached over MCP as well; what fails goes to
    `fallback`, for which there is always a slot."""

    def __init__(
        self,
        loaded: Loaded,
        sources: Mapping[str, GuardedSource],
        metrics: Metrics,
        *,
        fallback: Fallback | None,
        deadline_s: float,
        fallback_deadline_s: float,
    ) -> None:
        self._loaded = loaded
        self._sources = sources
        self._ways = downstream(loaded.sop)
        self._lanes = Lanes(fast=1, slow=1)
        self._engine = Engine(
            options=EngineOptions(deadline_s=deadline_s, fallback_deadline_s=fallback_deadline_s),
            clock=SystemClock(),
            marker=NoMark(),
            metrics=metrics.nodes,
            fallback=fallback,
        )

    async def decide(self, alert: Alert, library: Library | None = None) -> Walked:
        """With the procedure's own library unless another is given."""
        pinned = snapshot(
            self._loaded.sop,
            self._loaded.sites,
            library or self._loaded.library,
            self._sources,
            ways=self._ways,
        )
        slot = self._lanes.take()
        began = time.perf_counter()
        try:
            decided = await self._engine.decide(alert, pinned, lane=slot)
        finally:
            slot.release()
        return Walked(decided, time.perf_counter() - began)


@dataclass(slots=True, kw_only=True)
class Tally:
    """What fallbacks came to. `seconds` are of one node each; `ended` counts how they ended, by
    VERDICT or the reason, `words` what they said."""

    nodes: int = 0
    distinct: set[NodeId] = field(default_factory=set)
    words: Counter[str] = field(default_factory=Counter)
    verdicts: int = 0
    turns: int = 0
    most_turns: int = 0
    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    seconds: list[float] = field(default_factory=list)
    ended: Counter[str] = field(default_factory=Counter)

    def take(self, decision: Decision) -> None:
        for result in decision.nodes:
            if result.tool_failure is not None:
                self._take_node(result)

    def _take_node(self, result: NodeResult) -> None:
        self.nodes += 1
        self.distinct.add(result.node)
        self.words[result.word] += 1
        self.verdicts += result.answered_by is AnsweredBy.FALLBACK
        self.ended[VERDICT if result.failure is None else result.failure.reason] += 1
        if result.trace is None:
            return
        self.seconds.append(result.trace.elapsed_ms / 1000)
        self.turns += len(result.trace.turns)
        self.most_turns = max(self.most_turns, len(result.trace.turns))
        for turn in result.trace.turns:
            self.calls += len(turn.calls)
            self.prompt_tokens += turn.prompt_tokens
            self.completion_tokens += turn.completion_tokens

    def figures(self) -> dict[str, Any]:
        return {
            "fallback_nodes": self.nodes,
            "fallback_verdicts": self.verdicts,
            "fallback_distinct_nodes": len(self.distinct),
            "fallback_words": dict(self.words.most_common()),
            "fallback_ended": dict(self.ended.most_common()),
            "llm_turns": self.turns,
            "llm_turns_most": self.most_turns,
            "host_calls": self.calls,
            "tokens": self.prompt_tokens + self.completion_tokens,
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
            "node_p50_ms": _ms(nearest_rank(self.seconds, 0.5)) if self.seconds else None,
            "node_p99_ms": _ms(nearest_rank(self.seconds, 0.99)) if self.seconds else None,
        }


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 3)
