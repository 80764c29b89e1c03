"""Answers and evaluations made by hand, for the tests of what is watched."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from random import Random

from triage.model.decision import NodeId
from triage.model.query import Aggregate, Rows, Samples, Series
from triage.watching.drift import SAME_S, Alarm, NodeDrift
from triage.watching.features import NodeSeen, SlotSeen, answer_seen

START = datetime(2026, 3, 1, tzinfo=UTC)
NODE = NodeId("obs_queue")
STEP_S = SAME_S  # between two evaluations that are new to each other
TOOL = "ab" * 32
LEVELS = "metrics queue_level{site}"


def samples(at: datetime = START, window_s: float = 600.0, metric: str = "queue_level") -> Samples:
    return Samples("metrics", f'{metric}{{site="north"}}', at - timedelta(seconds=window_s), at)


def series(values: Sequence[float], labels: Mapping[str, str] | None = None) -> Series:
    given = {"__name__": "queue_level", "asset": "A-1"} if labels is None else labels
    return Series(given, tuple(float(10 * at) for at in range(len(values))), tuple(values))


def levels(
    values: Sequence[float], labels: Mapping[str, str] | None = None, slot: str = LEVELS
) -> SlotSeen:
    return answer_seen(slot, samples(), (series(values, labels),) if values else ())


def table(rows: Sequence[Mapping[str, object]], slot: str = "tables t") -> SlotSeen:
    return answer_seen(slot, Rows("tables", "SELECT * FROM t"), tuple(rows))


def seen(
    *slots: SlotSeen,
    number: int = 0,
    site: str = "north",
    word: str = "true",
    failure: str = "",
    detail: str = "",
    tool: str = TOOL,
    step_s: float = STEP_S,
) -> NodeSeen:
    return NodeSeen(
        node=NODE,
        tool_sha256=tool,
        site=site,
        at=START + timedelta(seconds=step_s * number),
        word=word,
        failure=failure,
        detail=detail,
        slots=slots,
    )


def noise(
    chance: Random, middle: float = 50.0, spread: float = 0.1, count: int = 20
) -> list[float]:
    """Log-normal about `middle`."""
    return [middle * chance.lognormvariate(0, spread) for _ in range(count)]


def run(
    drift: NodeDrift, each: Callable[[int], NodeSeen], count: int, begin: int = 0
) -> list[tuple[int, Alarm]]:
    """What opened, and after how many evaluations (the first is 1)."""
    opened = []
    for number in range(begin, begin + count):
        change = drift.see(each(number))
        opened += [(number - begin + 1, alarm) for alarm in change.opened]
    return opened


READ = Aggregate("metrics", 'queue_level{site="north"}', START - timedelta(hours=1), START, "max")
