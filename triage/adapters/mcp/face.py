"""Any source as an MCP server's tools: how an agent reaches what is no MCP server itself."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from triage.adapters.mcp.face_catalogue import Catalogues
from triage.adapters.mcp.tools_source import ToolsSource
from triage.errors import SourceFailed, ToolFailed
from triage.ports import Catalogued

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from triage.adapters.mcp.session import Link
    from triage.model.catalogue import Catalogue
    from triage.ports import Source, SourceTool

METRICS = frozenset({"samples", "aggregate"})
TABLES = frozenset({"query"})
EVERYTHING = METRICS | TABLES

METRICS_CATALOGUE, TABLES_CATALOGUE = "metrics", "tables"
"""Come with METRICS and TABLES where the source is `Catalogued`."""

_TELLS_S = 2.0  # a source that tells later what it has is offered as if it might have anything
_CONNECT_S = 10.0  # there is nothing to wait for: a face that is slower is broken


class FaceSource(ToolsSource):
    """Answers `Call` of the tools `samples`, `aggregate` and `query`, as far as they are
    `offered`, by asking `source`, which it neither opens nor closes.

    ::

        samples(selector, start, end)
            {"series": [{"labels": {…}, "times": [seconds since the epoch…], "values": […]}]}
        aggregate(selector, start, end, function, quantile=0)
            {"readings": [{"labels": {…}, "value": …}]}
        query(sql, params={})
            {"rows": [{…}]}
        metrics(contains="", limit=50)
            {"metrics": [{"name": …, "labels": […], "help": …}], "more": 0}
        tables(contains="", limit=50)
            {"tables": [{"name": …, "columns": [{"name": …, "type": …}]}], "more": 0}

    The last two are there when the source is `Catalogued` and what they tell of is on offer. What
    it told is used for a minute, by the clock `monotonic`. Where metrics and tables are both on
    offer and the source has but one of them, `tools` leaves out what is for the other.

    Values that are not finite are the texts that `encode_answer` spells them as. A query that the
    source refuses, and an outage, come out as the source's own ToolFailed and SourceFailed.
    """

    def __init__(
        self,
        source: Source,
        offered: Collection[str] = EVERYTHING,
        *,
        max_bytes: int = 1024 * 1024,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._source = source
        self._offered = frozenset(offered)
        self._catalogues: Catalogues | None = None
        if isinstance(source, Catalogued):
            self._catalogues = Catalogues(source, monotonic=monotonic)
            self._offered |= _catalogue_tools(self._offered)
        super().__init__(
            source.name,
            allow_tools=frozenset(),
            max_bytes=max_bytes,
            connect_timeout_s=_CONNECT_S,
            backoff=None,
            secrets=(),
        )

    def _connect(self) -> Callable[[], Link]:
        from triage.adapters.mcp.links import FaceLink

        return FaceLink(source=self._source, offered=self._offered, catalogues=self._catalogues)

    async def tools(self, *, timeout_s: float) -> Sequence[SourceTool]:
        until = asyncio.get_running_loop().time() + timeout_s
        tools = await super().tools(timeout_s=timeout_s)
        left_s = until - asyncio.get_running_loop().time()
        idle = _idle(await self._known(min(left_s, _TELLS_S)))
        return [tool for tool in tools if tool.name not in idle]

    async def _known(self, timeout_s: float) -> Catalogue | None:
        """None where it does not matter, or the source does not tell just now."""
        catalogues = self._catalogues
        if catalogues is None or not (self._offered & METRICS and self._offered & TABLES):
            return None
        if catalogues.known is None:
            try:
                async with asyncio.timeout(timeout_s):
                    return await catalogues.current(lambda: timeout_s)
            except (TimeoutError, SourceFailed, ToolFailed):
                return None
        return catalogues.known


def _catalogue_tools(offered: Collection[str]) -> frozenset[str]:
    kinds = ((METRICS, METRICS_CATALOGUE), (TABLES, TABLES_CATALOGUE))
    return frozenset(tool for kind, tool in kinds if not kind.isdisjoint(offered))


def _idle(catalogue: Catalogue | None) -> frozenset[str]:
    """Tools for what the source has not. One that has nothing yet may have either."""
    if catalogue is None or bool(catalogue.metrics) == bool(catalogue.tables):
        return frozenset()
    kind = TABLES if catalogue.metrics else METRICS
    return kind | _catalogue_tools(kind)
