"""A plant with tanks, an agent whose model is scripted, and sources behind faces."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

from prometheus_client import CollectorRegistry

from tests.unit.evaluation.world import action, node, procedure
from tests.unit.fallback.agent_world import ScriptedModel, block
from triage.adapters.memory import MemorySource
from triage.adapters.sandbox import MontySandbox, SandboxLimits
from triage.app.collecting import collector, reached_by
from triage.app.fallback_section import FallbackSection
from triage.app.sections import CustomSource
from triage.clock import SystemClock
from triage.fallback.agent import CodeAct
from triage.fallback.host import Rates
from triage.fallback.limits import AgentLimits
from triage.fallback.masking import Mask
from triage.fallback.prompt import Prompt
from triage.maker.collect import Collector
from triage.model.case import LabelledCase, case_id
from triage.model.decision import NodeId
from triage.model.query import Answer, Query, Rows, Samples, Series
from triage.ports import Source
from triage.sop.sites import Sites, parse_sites
from triage.telemetry.edge_metrics import SourceMetrics
from triage.telemetry.fallback_metrics import FallbackMetrics

AT = datetime(2026, 3, 1, 12, tzinfo=UTC)
SECRET = "hunter2-hunter2"  # noqa: S105 - to be masked
MASK = Mask((), (SECRET,))
CLOCK = SystemClock()
NODE = NodeId("obs_full")
SOURCES = ("metrics", "orders")
SECTION = FallbackSection(llm_url="http://127.0.0.1:1/v1", model="scripted", timeout_s=60.0)

SOP = procedure(
    node("obs_late", true=["obs_full"]),
    node("obs_full", sources=SOURCES, true=["act"]),
    actions=[action("act")],
)

SITES = b"""
defaults:
  zone: UTC
sites:
  north:
    units: {tank_level: percent}
  south:
    units: {tank_level: fraction}
  west:
    units: {tank_level: percent}
"""

SAMPLED = """\
r = await metrics_samples(
    selector=selector("tank_level", site=site), start=ago(900), end=fired_at
)
q = await orders_query(sql="select id from orders where site = :site", params={"site": site})
levels = [s.values[-1] for s in read_series(r["data"])]
await submit(verdict="true" if levels[0] > 50 else "false", explanation="looked", subject="TK-1")
"""


def sites() -> Sites:
    return parse_sites(SITES, "sites.yaml", SOP)


def case(
    expected: str = "true",
    site: str = "north",
    *,
    hours: float = 0,
    entity: str = "TK-1",
    of: str = NODE,
    **more: Any,
) -> LabelledCase:
    at = AT - timedelta(hours=hours)
    return LabelledCase(
        case_id=case_id(of, site, at, entity, {}),
        node=NodeId(of),
        warehouse=site,
        timestamp=at,
        expected=expected,
        entity=entity,
        **more,
    )


def level(value: float, query: Query, **labels: str) -> Answer:
    """One series, its last sample at the end of the window."""
    assert isinstance(query, Samples)
    end = query.end.timestamp()
    return (Series({"tank": "TK-1", **labels}, (end - 60, end), (value - 1, value)),)


def answering(
    metrics: Callable[[Query], Answer] = lambda query: level(80.0, query),
    orders: Callable[[Query], Answer] = lambda _: ({"id": 1}, {"id": 2}),
) -> list[MemorySource]:
    return [MemorySource("metrics", metrics), MemorySource("orders", orders)]


@asynccontextmanager
async def collecting(
    *replies: str | Exception, sources: Sequence[Source] = (), turns: int = 6
) -> AsyncIterator[Collector]:
    """With a real sandbox. `sources` are the live ones."""
    registry = CollectorRegistry()
    metrics = SourceMetrics.register(registry)
    sandbox = MontySandbox(SandboxLimits(workers=1))
    await sandbox.open()
    fallback = CodeAct(
        model=ScriptedModel(
            *(one if isinstance(one, Exception) else block(one) for one in replies)
        ),
        sandbox=sandbox,
        prompt=Prompt.load(),
        examples=lambda _: (),
        limits=AgentLimits(turns=turns),
        rates=Rates(1000.0, monotonic=CLOCK.monotonic),
        mask=MASK,
        max_answer_bytes=1 << 20,
        metrics=FallbackMetrics.register(registry),
        monotonic=CLOCK.monotonic,
    )
    faces = {"metrics": frozenset(("samples", "aggregate")), "orders": frozenset(("query",))}
    reached = reached_by(SECTION, metrics=metrics, monotonic=CLOCK.monotonic)
    try:
        async with reached({one.name: one for one in sources}, faces) as guarded:
            yield collector(
                fallback=fallback,
                section=SECTION,
                sop=SOP,
                sites=sites(),
                sources=guarded,
                sections=_sections(one.name for one in sources),
                mask=MASK,
                metrics=metrics,
                monotonic=CLOCK.monotonic,
            )
    finally:
        await sandbox.close()


def _sections(names: Any) -> Mapping[str, CustomSource]:
    return {name: CustomSource(type="custom", factory="somewhere:make") for name in names}


def samples(site: str = "north", at: datetime = AT, seconds: float = 900) -> Samples:
    return Samples("metrics", f'tank_level{{site="{site}"}}', at - timedelta(seconds=seconds), at)


def orders(site: str = "north") -> Rows:
    return Rows("orders", "select id from orders where site = :site", (("site", site),))
