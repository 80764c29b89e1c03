"""The fallback as the daemon puts it together, around an endpoint and the sources of a bench."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from pydantic import ByteSize

from bench.dock import ANSWER_BYTES, LIBRARY
from triage.app.fallback import agent
from triage.app.fallback_section import FallbackSection
from triage.app.over_mcp import agent_limits, all_over_mcp
from triage.clock import SystemClock
from triage.evaluation.guard import GuardedSource
from triage.ports import Fallback
from triage.telemetry.metrics import Metrics

PATIENCE_S = 120.0
"""For one node. What is measured is what agents answer; a busy machine fails none."""
ATTEMPT_S = 600.0
"""For one alert: it may have several layers of agents."""
CALLS_A_SECOND = 10_000.0
"""Of one tool. A bench asks for one alert after another what a site asks in an hour."""
REPLY_TOKENS = 4_000
"""The longest of the dock's tools has 2,100."""
REQUESTS = 16
"""At once; a layer of the dock has seldom more nodes."""


class FallbackOff(Exception):
    """The fallback cannot run here; the message says why."""


def section(
    llm_url: str, model: str, *, timeout_s: float = PATIENCE_S, **more: float
) -> FallbackSection:
    """A configuration: `timeout_s` may go into one request or one run, `more` are its own keys,
    and all else is as by default."""
    return FallbackSection.model_validate(
        {
            "llm_url": llm_url,
            "model": model,
            "timeout_s": timeout_s,
            "request_timeout_s": timeout_s,
            "sandbox_run_s": timeout_s,
            "source_timeout_s": timeout_s,
            "max_answer_bytes": ByteSize(ANSWER_BYTES),
            "max_calls_a_second": CALLS_A_SECOND,
            "max_reply_tokens": REPLY_TOKENS,
            "max_requests": REQUESTS,
            **more,
        }
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Agency:
    """Implements `Staff`. Worked examples are those that lie in `library`."""

    section: FallbackSection
    library: Path = LIBRARY
    attempt_s: float = ATTEMPT_S

    @property
    def model(self) -> str:
        return self.section.model

    @asynccontextmanager
    async def at_work(
        self, sources: Mapping[str, GuardedSource], metrics: Metrics
    ) -> AsyncIterator[Fallback]:
        """Raises FallbackOff."""
        clock = SystemClock()
        own = next(iter(sources.values())).limits
        async with (
            all_over_mcp(
                sources,
                limits=agent_limits(own, self.section),
                metrics=metrics.sources,
                monotonic=clock.monotonic,
            ),
            agent(
                self.section,
                library=self.library,
                secrets=(),
                metrics=metrics.fallback,
                clock=clock,
            ) as made,
        ):
            if made.fallback is None:
                raise FallbackOff(f"the fallback is {made.state}")
            yield made.fallback
