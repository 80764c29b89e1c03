"""Decisions of a real engine, and shadows whose trials are scripted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from tests.unit.evaluation.virtual_time import LoopClock
from tests.unit.evaluation.world import (
    World,
    action,
    alert,
    library,
    memory,
    new_metrics,
    node,
    procedure,
    query,
    tool,
    value,
)
from triage.engine.engine import Decided
from triage.errors import SandboxFailed, SourceFailed, StoreError, ToolFailed
from triage.library.shadow import ShadowTool
from triage.model.alert import Alert
from triage.model.canonical import sha256_hex
from triage.model.decision import NodeId
from triage.model.query import encode_answer
from triage.model.verdict import Clause
from triage.ports import Compared, Comparison, ComparisonPage, Pair, Tally
from triage.telemetry.metrics import Metrics
from triage.trial.model import FAILED, Answers, Candidate, Ease, Setting, Told, Tried, at_once
from triage.watching.shadow import Shadows

LIMIT = 10.0
"""The tools of `world` say true above that."""


def shadow(name: str, text: str = "", *, version: int = 2) -> ShadowTool:
    """`text` says what `ScriptedTrials` makes of it: a limit, and names to ask for."""
    text = text or f"{LIMIT} {name}"
    return ShadowTool(
        node=NodeId(name),
        version=version,
        sha256=sha256_hex(text.encode()),
        text=text,
    )


def world(answers: Mapping[str, float]) -> World:
    """Two nodes in one layer and one below them, each asking for the value of its name."""
    return World(
        sop=procedure(
            node("a", true=["c"]),
            node("b", true=["c"]),
            node("c", true=["act"]),
            actions=[action("act")],
            entry=["a", "b"],
        ),
        library=library(tool("a"), tool("b"), tool("c")),
        sources=[memory({name: value(number) for name, number in answers.items()})],
    )


@dataclass(slots=True)
class ScriptedTrials:
    """Implements `Trials`: a text is a limit, and the names whose first value must be above it."""

    calls: list[tuple[Candidate, list[Setting]]] = field(default_factory=list)
    failures: list[Exception] = field(default_factory=list)
    gate: asyncio.Event | None = None
    opened: int = 0
    closed: int = 0
    cannot_open: int = 0

    async def run(
        self, candidate: Candidate, settings: Sequence[tuple[Setting, Answers]]
    ) -> list[Tried]:
        self.calls.append((candidate, [setting for setting, _ in settings]))
        if self.gate is not None:
            await self.gate.wait()
        if self.failures:
            raise self.failures.pop(0)
        return [await _tried(candidate.text, answers) for _, answers in settings]

    @asynccontextmanager
    async def open(self) -> AsyncIterator[ScriptedTrials]:
        if self.cannot_open:
            self.cannot_open -= 1
            raise SandboxFailed("no worker")
        self.opened += 1
        try:
            yield self
        finally:
            self.closed += 1


async def _tried(text: str, answers: Answers) -> Tried:
    limit, *names = text.split()
    told: list[Told] = []
    clauses = []
    for name in names:
        asked = query(name)
        try:
            answer = await answers.answer(asked, timeout_s=1.0)
        except (SourceFailed, ToolFailed) as failed:
            return Tried(FAILED, failure=failed.reason, detail=failed.detail, asked=tuple(told))
        told.append(Told(asked, encode_answer(answer)))
        seen = answer[0]["value"]
        clauses.append(Clause(name, seen, ">", float(limit), "", seen > float(limit)))
    word = "true" if all(clause.holds for clause in clauses) else "false"
    return Tried(word, clauses=tuple(clauses), asked=tuple(told))


@dataclass(slots=True)
class Log:
    """Implements `ShadowLog`, as far as it is written to."""

    written: list[Comparison] = field(default_factory=list)
    calls: list[int] = field(default_factory=list)
    failures: int = 0

    async def compared(self, comparisons: Sequence[Comparison]) -> None:
        await asyncio.sleep(0)
        if self.failures:
            self.failures -= 1
            raise StoreError("disk full")
        self.calls.append(len(comparisons))
        self.written += comparisons

    async def tallies(self, node: str = "") -> Sequence[Tally]:
        raise StoreError(f"{node}: not a log to read from")

    async def comparison_page(
        self, pair: Pair, *, result: Compared | None, cursor: str, limit: int
    ) -> ComparisonPage:
        raise StoreError(f"{pair} {result} {cursor} {limit}: not a log to read from")

    def results(self) -> dict[str, list[str]]:
        """By node, in the order written."""
        found: dict[str, list[str]] = {}
        for one in self.written:
            found.setdefault(one.pair.node, []).append(one.result.value)
        return found


@dataclass(slots=True, kw_only=True)
class Bench:
    """A `Shadows` around all that."""

    tools: dict[NodeId, ShadowTool] = field(default_factory=dict)
    trials: ScriptedTrials = field(default_factory=ScriptedTrials)
    log: Log = field(default_factory=Log)
    metrics: Metrics = field(default_factory=new_metrics)
    workers: int = 1
    max_waiting: int = 256
    linger_s: float = 0.0
    ease: Ease = at_once

    def shadows(self) -> Shadows:
        return Shadows(
            tools=lambda: self.tools,
            trials=self.trials.open,
            log=self.log,
            clock=LoopClock(),
            metrics=self.metrics.shadows,
            workers=self.workers,
            max_waiting=self.max_waiting,
            linger_s=self.linger_s,
            ease=self.ease,
        )

    def put(self, *those: ShadowTool) -> None:
        self.tools = {one.node: one for one in those}

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Shadows]:
        """It runs inside, and is stopped and done after it."""
        shadows = self.shadows()
        task = asyncio.create_task(shadows.run())
        try:
            yield shadows
            shadows.stop()
            await task
        finally:
            task.cancel()
            await asyncio.wait([task])


async def decisions(
    count: int,
    answers: Callable[[int], Mapping[str, float]] = lambda _: {"a": 20, "b": 20, "c": 20},
) -> list[tuple[Alert, Decided, World]]:
    made = []
    for number in range(count):
        one, around = alert(f"{number:032x}"), world(answers(number))
        made.append((one, await around.decide(one), around))
    return made
