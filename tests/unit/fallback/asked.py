"""A question, the alert it is about, and sources that answer for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from triage.adapters.mcp.face_tools import FACE_TOOLS
from triage.errors import SourceFailed, SourceFailure
from triage.fallback.host import HostTools, Rates, open_host_tools
from triage.fallback.limits import AgentLimits
from triage.fallback.masking import Mask
from triage.model.alert import Alert, AlertId, Severity
from triage.model.canonical import canonical_json, sha256_hex
from triage.model.decision import NodeId, NodeKind
from triage.model.query import Call
from triage.model.question import Follower, Parameter, Question
from triage.model.site import Site
from triage.ports import CallAnswer, FallbackRequest, SourceCalls, SourceTool

FIRED_AT = datetime(2026, 11, 18, 15, 7, tzinfo=UTC)
MASK = Mask((), ())

ALERT = Alert(
    alert_id=AlertId("0" * 32),
    integration="test",
    tenant="",
    fingerprint="1",
    alarm="al_tank_low",
    site="north",
    entity="TK-7",
    severity=Severity.WARNING,
    fired_at=FIRED_AT,
    accepted_at=FIRED_AT,
    labels={"alertname": "TankLow"},
    annotations={"summary": "ANNOTATED"},
)
SITE = Site(name="north", zone="Europe/Berlin", units={"level": "percent"}, facts={"tanks": 9})
QUESTION = Question(
    sop="plant",
    sop_version=3,
    node=NodeId("obs_tank_low"),
    kind=NodeKind.OBSERVATION,
    text="Is the tank nearly empty?",
    text_sha256="",
    sources=("metrics",),
    before=(),
    after=(Follower("true", "order", "Order more."), Follower("false", "close", "Close it.")),
    parameters={
        "tank_low_pct": Parameter(name="tank_low_pct", value=12.5, unit="percent", text=""),
        "pump_bar": Parameter(name="pump_bar", value=3, unit="bar", text="What a pump gives."),
    },
)
FACES = {
    tool.name: SourceTool(
        name=tool.name,
        description=tool.description or "",
        input_schema=tool.input_schema,
        output_schema=tool.output_schema,
    )
    for tool in FACE_TOOLS
}


def tool(name: str, properties: Mapping[str, Any] | None = None, **schema: Any) -> SourceTool:
    """One of an MCP server; `schema` is more of its input schema."""
    return SourceTool(
        name=name,
        description=f"Does {name}.",
        input_schema={"type": "object", "properties": dict(properties or {}), **schema},
    )


class FakeCalls:
    """Implements `ports.SourceCalls`. `shelves` maps a source to its tools, or to the error that
    listing them raises; `answers` gives the data of a call, or the error that it raises."""

    def __init__(
        self,
        shelves: Mapping[str, Sequence[SourceTool] | Exception],
        answers: Callable[[Call], object] = lambda _: {"series": []},
    ) -> None:
        self._shelves = shelves
        self._answers = answers
        self.listed: list[str] = []
        self.called: list[Call] = []

    async def tools(self, source: str) -> Sequence[SourceTool]:
        self.listed.append(source)
        shelf = self._shelves[source]
        if isinstance(shelf, Exception):
            raise shelf
        return shelf

    async def call(self, query: Call) -> CallAnswer:
        self.called.append(query)
        data = self._answers(query)
        if isinstance(data, Exception):
            raise data
        body = canonical_json(data)
        return CallAnswer(data, sha256_hex(body), len(body))


def metrics(answers: Callable[[Call], object] = lambda _: {"series": []}) -> FakeCalls:
    return FakeCalls({"metrics": [FACES["samples"], FACES["aggregate"]]}, answers)


def down(detail: str = "connection refused") -> SourceFailed:
    return SourceFailed(SourceFailure.CONNECT, detail)


def asked(**changes: Any) -> Question:
    return replace(QUESTION, **changes)


class Clock:
    """Stands still until it is put on, or somebody sleeps."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


async def opened(
    calls: SourceCalls,
    question: Question = QUESTION,
    *,
    limits: AgentLimits | None = None,
    clock: Clock | None = None,
    rates: Rates | None = None,
    mask: Mask = MASK,
    max_answer_bytes: int = 1 << 20,
) -> HostTools:
    clock = clock or Clock()
    return await open_host_tools(
        calls,
        question,
        limits=limits or AgentLimits(),
        rates=rates or Rates(1000, monotonic=clock),
        monotonic=clock,
        mask=mask,
        max_answer_bytes=max_answer_bytes,
        sleep=clock.sleep,
    )


def request(
    calls: SourceCalls,
    question: Question = QUESTION,
    *,
    alert: Alert = ALERT,
    site: Site = SITE,
) -> FallbackRequest:
    return FallbackRequest(
        alert=alert, question=question, site=site, reason="tool_missing", detail="", calls=calls
    )
