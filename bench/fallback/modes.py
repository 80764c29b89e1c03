"""Three ways to answer the same nodes: by the tools, by agents with a tool, by agents with code."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import assert_never

from bench.fallback.delegated import Delegated
from bench.fallback.disabled import without
from bench.fallback.staff import Staff
from triage.app.procedure import Loaded
from triage.evaluation.guard import GuardedSource
from triage.ports import Fallback
from triage.telemetry.metrics import Metrics


class Mode(StrEnum):
    DIRECT = "direct"
    """The engine calls the tools."""
    DELEGATED = "delegated"
    """An agent a node, which calls the node's tool."""
    CODEACT = "codeact"
    """An agent a node, which writes code."""


def staffed(mode: Mode, loaded: Loaded, staff: Staff | None) -> tuple[Loaded, Staff | None]:
    """What is to be served, and who answers for what it lacks. Raises ValueError without staff
    for a mode that needs some."""
    if mode is Mode.DIRECT:
        return loaded, None
    if staff is None:
        raise ValueError(f"mode {mode} asks a model: say which")
    bare = replace(loaded, library=without(loaded.library, set(loaded.sop.nodes)))
    match mode:
        case Mode.CODEACT:
            return bare, staff
        case Mode.DELEGATED:
            return bare, _ToolCallers(agency=staff, loaded=loaded)
        case _:
            assert_never(mode)


@dataclass(frozen=True, slots=True, kw_only=True)
class _ToolCallers:
    """Implements `Staff`. `loaded` has the tools that the agents of `agency` call."""

    agency: Staff
    loaded: Loaded

    @property
    def model(self) -> str:
        return self.agency.model

    @property
    def attempt_s(self) -> float:
        return self.agency.attempt_s

    @asynccontextmanager
    async def at_work(
        self, sources: Mapping[str, GuardedSource], metrics: Metrics
    ) -> AsyncIterator[Fallback]:
        async with self.agency.at_work(sources, metrics) as agent:
            yield Delegated(
                agent, self.loaded, sources, metrics=metrics.nodes, monotonic=time.monotonic
            )
