"""What the tests of faces share: a metrics source in memory, and how to ask it over MCP."""

from __future__ import annotations

from typing import Any

import pytest

from tests.contract.metrics_cases import SOURCE, at, in_memory
from triage.adapters.mcp import FaceSource
from triage.adapters.memory import MemorySeries, MemorySource
from triage.errors import SourceFailed, ToolFailed, ToolFailure
from triage.model.query import Aggregate, Answer, Query, Reading, Samples, Series
from triage.tool_api import call

LONG_S = 60.0  # for what must succeed: no assertion depends on how soon
SHORT_S = 0.05  # for what never answers
WINDOW: dict[str, Any] = {"start": at(0).isoformat(), "end": at(60).isoformat()}
LEVEL: dict[str, Any] = {"selector": "level", **WINDOW}


def metrics(**series: tuple[Series, ...]) -> MemorySource:
    return MemorySource(SOURCE, MemorySeries(series or in_memory()))


def as_call(query: Samples | Aggregate) -> Query:
    given: dict[str, Any] = {
        "selector": query.selector,
        "start": query.start.isoformat(),
        "end": query.end.isoformat(),
    }
    if isinstance(query, Samples):
        return call(SOURCE, "samples", **given)
    given["function"] = query.function
    if query.function == "quantile":
        given["quantile"] = query.quantile
    return call(SOURCE, "aggregate", **given)


def read(document: dict[str, Any]) -> Answer:
    """What a tool would have got, from what a face gave."""
    if "series" in document:
        return tuple(
            Series(one["labels"], tuple(one["times"]), tuple(map(float, one["values"])))
            for one in document["series"]
        )
    return tuple(Reading(one["labels"], float(one["value"])) for one in document["readings"])


async def ask(source: FaceSource, tool: str, *, timeout_s: float = LONG_S, **given: Any) -> Any:
    return await source.ask(call(source.name, tool, **given), timeout_s=timeout_s)


async def refused(source: FaceSource, tool: str, **given: Any) -> str:
    with pytest.raises(ToolFailed) as caught:
        await ask(source, tool, **given)
    assert caught.value.failure is ToolFailure.QUERY_REJECTED
    return caught.value.detail


async def failed(source: FaceSource, *, timeout_s: float = LONG_S) -> SourceFailed:
    with pytest.raises(SourceFailed) as caught:
        await ask(source, "samples", timeout_s=timeout_s, **LEVEL)
    return caught.value
