"""What a set of alerts can ask of the metrics, and that much of the past in a real Prometheus.

Five weeks of a site are some ten million samples; what the alerts look at is a part of it. That is
no cheat: per metric the windows that any node reachable from any of the alerts asks for are
joined, widened on both sides, and filled with every sample of every asset. So each window has
samples just before and just behind it, and beside it those of other alerts' windows and of assets
that it does not select. What lies in a window is for the server and the adapter to find out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, floor
from pathlib import Path

from bench.replay.alerts import HistoricalAlert
from bench.servers import Prometheus
from bench.world.catalogue import PREFIX, SERIES
from bench.world.layout import ASSETS
from bench.world.metrics import CHUNK_S, WorldMetrics, joined
from bench.world.selectors import parsed
from bench.world.served import ServedSeries
from triage.app.procedure import Loaded
from triage.errors import ToolFailed
from triage.evaluation.context import ToolContext
from triage.evaluation.judge import NoMark, collect_queries
from triage.model.query import Aggregate, Query, Samples
from triage.traversal import reachable

MARGIN_S = 300
BLOCK_HOURS = 162
"""The text is read once for every block: six times for five weeks, and not 420 times."""

Range = tuple[int, int]
"""(start, end] in seconds since the epoch."""
Ranges = Mapping[str, Sequence[Range]]
"""By the metric's name as it is served; ascending and apart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Filled:
    """How many samples were written, and how many of them lie in some window that is asked for."""

    written: int
    asked: int


def possible_queries(loaded: Loaded, alerts: Iterable[HistoricalAlert]) -> set[Query]:
    """All that any node reachable from one of the alerts asks, whatever the verdicts before it.

    A dynamic tool says what it asks only while it runs; add what decisions have asked. Raises
    ToolFailed for a tool that does not load, or cannot say what it asks.
    """
    found: set[Query] = set()
    ways = {alarm: reachable(loaded.sop, entry) for alarm, entry in loaded.sop.alarms.items()}
    for historical in alerts:
        alert = historical.alert(historical.arrival.fired_at)
        profile = loaded.sites.profile(alert.site)
        for node in ways[loaded.sop.routed(alert.alarm)]:
            tool = loaded.library.get(node)
            if isinstance(tool, ToolFailed):
                raise tool
            found.update(
                collect_queries(
                    tool,
                    loaded.sop.nodes[node].sources,
                    profile.site.name,
                    alert.fired_at,
                    ToolContext(alert, profile),
                    NoMark(),
                )
            )
    return found


def windows(queries: Iterable[Query], margin_s: int = 0) -> Ranges:
    """The union of what is asked of each metric, widened by `margin_s` on both sides."""
    found: dict[str, list[Range]] = {}
    for query in queries:
        if isinstance(query, Samples | Aggregate):
            window = (
                floor(query.start.timestamp()) - margin_s,
                ceil(query.end.timestamp()) + margin_s,
            )
            found.setdefault(parsed(query.selector).metric, []).append(window)
    return {metric: tuple(joined(found[metric])) for metric in sorted(found)}


def fill_prometheus(
    server: Prometheus, served: ServedSeries, site: int, queries: Iterable[Query]
) -> Filled:
    """Writes what the queries ask of one site, and around it, before the server starts."""
    asked = windows(queries)
    dump = server.folder / "backfill.om"
    written = _write(dump, WorldMetrics(served), site, windows(queries, MARGIN_S))
    server.backfill_file(dump, block_hours=BLOCK_HOURS)
    dump.unlink()
    return Filled(written=written, asked=count(served, site, asked))


def _write(dump: Path, metrics: WorldMetrics, site: int, ranges: Ranges) -> int:
    written = 0
    with dump.open("w") as text:
        for metric, stretches in ranges.items():
            for piece in metrics.backfill(site, stretches, series_of(metric)):
                if not piece.startswith("# EOF"):  # one text of all metrics has one end
                    text.write(piece)
                    written += 0 if piece.startswith("#") else piece.count("\n")
        text.write("# EOF\n")
    return written


def count(served: ServedSeries, site: int, ranges: Ranges) -> int:
    """Samples of all assets."""
    found = 0
    for metric, stretches in ranges.items():
        for series in series_of(metric):
            rows = range(len(ASSETS[SERIES[series].assets]))
            for begin, until in _pieces(stretches):
                read = served.read(site, series, rows, begin, until)
                found += sum(len(one.times) for one in read)
    return found


def series_of(metric: str) -> tuple[str, ...]:
    """The catalogue's names of what is served as one metric."""
    return tuple(name for name in SERIES if PREFIX + name.partition(":")[0] == metric)


def _pieces(stretches: Iterable[Range]) -> Iterator[Range]:
    for start, end in stretches:
        for begin in range(start, end, CHUNK_S):
            yield begin, min(begin + CHUNK_S, end)
