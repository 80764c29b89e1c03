"""What a source has, kept for a while, and the part of it that somebody looks for."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from triage.model.catalogue import metric_words, ranked, table_words

if TYPE_CHECKING:
    from collections.abc import Callable

    from triage.model.catalogue import Catalogue, Metric
    from triage.ports import Catalogued

KEPT_S = 60.0
"""How old what is told may be."""
MOST_WORDS = 40
MOST_LABELS = 40
MOST_COLUMNS = 200
LONGEST_HELP = 240  # characters


class Catalogues:
    """Of one source, which one request at a time is asked for it. `monotonic` gives seconds."""

    def __init__(self, source: Catalogued, *, monotonic: Callable[[], float]) -> None:
        self._source = source
        self._monotonic = monotonic
        self._asking = asyncio.Lock()
        self._asked_at = 0.0
        self.known: Catalogue | None = None
        """The last one, however old."""

    async def current(self, left_s: Callable[[], float]) -> Catalogue:
        """At most KEPT_S old. `left_s` is how long whoever waits has still. Raises what the
        source does; may be cancelled, and then the next one asks."""
        async with self._asking:
            if self.known is None or self._monotonic() - self._asked_at >= KEPT_S:
                asked_at = self._monotonic()
                self.known = await self._source.catalogue(timeout_s=left_s())
                self._asked_at = asked_at
            return self.known


def metrics_document(catalogue: Catalogue, contains: str, limit: int) -> dict[str, Any]:
    """The answer of the tool `metrics`."""
    metrics = catalogue.metrics
    found = ranked({name: metric_words(one) for name, one in metrics.items()}, _words(contains))
    return {
        "metrics": [
            {
                "name": name,
                "labels": list(metrics[name].labels[:MOST_LABELS]),
                "help": _help(metrics[name]),
            }
            for name in found[:limit]
        ],
        "more": max(0, len(found) - limit),
    }


def tables_document(catalogue: Catalogue, contains: str, limit: int) -> dict[str, Any]:
    """The answer of the tool `tables`."""
    tables = catalogue.tables
    found = ranked({name: table_words(one) for name, one in tables.items()}, _words(contains))
    return {
        "tables": [
            {"name": name, "columns": [one._asdict() for one in tables[name][:MOST_COLUMNS]]}
            for name in found[:limit]
        ],
        "more": max(0, len(found) - limit),
    }


def _words(contains: str) -> list[str]:
    return contains.split()[:MOST_WORDS]


def _help(metric: Metric) -> str:
    facts = ", ".join(fact for fact in (metric.kind, metric.unit) if fact)
    text = " ".join(metric.help.split())
    if len(text) > LONGEST_HELP:
        text = f"{text[: LONGEST_HELP - 1]}…"
    return f"{text} ({facts})" if text and facts else text or facts
