"""Which changes are injected: chosen from what the watched nodes saw while all was well.

A unit changes at one site, the one that its nodes are asked about most. A level moves at every
site, by three robust standard deviations of what the node sees there (the widest of the nodes that
ask it). A name changes everywhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from bench.drift.changed import Change, site_of, target_of
from bench.world.chance import stream, uniform
from triage.engine.engine import Decided
from triage.model.decision import NodeId
from triage.model.query import Aggregate, Call, Rows, Samples
from triage.watching.drift_moved import FIGURES
from triage.watching.features import VALUE, FieldSeen, SlotSeen, query_shape, slot_seen

SIGMAS = 3.0
UNITS = (1000.0, 0.001, 60.0)
MOSTLY = 0.8
LEAST_SEEN = 36  # evaluations at a site: less is within the warm-up
NO_LABEL = frozenset({"__name__", "site"})
IDS = frozenset({"batch_id"})
"""Numbers that are names: they have no level."""


class Place(NamedTuple):
    """A field of what a node asks. `levels` are by site, the middles of its values in order."""

    node: NodeId
    source: str
    target: str
    field: str
    path: str
    levels: Mapping[str, Sequence[float]]
    asked: Mapping[str, int]
    """How often the field was there at all."""

    @property
    def sites(self) -> list[str]:
        """Those at which it is past the warm-up, and has a level more often than not."""
        return [
            site
            for site, seen in self.levels.items()
            if len(seen) >= max(LEAST_SEEN, MOSTLY * self.asked[site])
        ]


_Key = tuple[NodeId, str, str, str, str]


class Survey:
    """Collects places while decisions go by."""

    def __init__(self) -> None:
        self._levels: dict[_Key, dict[str, list[float]]] = {}
        self._fields: dict[_Key, dict[str, list[float]]] = {}
        self.sources: dict[str, dict[NodeId, int]] = {}

    def see(self, decided: Decided) -> None:
        looked_at: dict[tuple[str, str], SlotSeen] = {}  # nodes share answers
        for result in decided.decision.nodes:
            for source in {asked.query.source for asked in result.asked}:
                counts = self.sources.setdefault(source, {})
                counts[result.node] = counts.get(result.node, 0) + 1
            done: set[tuple[str, str]] = set()
            for asked in result.asked:
                body = decided.evidence.get(asked.answer_sha256)
                shape = query_shape(asked.query)
                if body is None or not isinstance(asked.query, Samples | Aggregate | Rows | Call):
                    continue
                its = (shape, asked.answer_sha256)
                if its not in looked_at:
                    looked_at[its] = slot_seen(shape, asked.query, body)
                seen = looked_at[its]
                site = site_of(asked.query)
                for field in seen.fields:
                    if (shape, field.name) in done:
                        continue
                    done.add((shape, field.name))
                    name = _key(field)
                    key = (
                        result.node,
                        asked.query.source,
                        target_of(asked.query),
                        name,
                        field.name,
                    )
                    self._fields.setdefault(key, {}).setdefault(site, []).append(0.0)
                    if field.median is not None:
                        self._levels.setdefault(key, {}).setdefault(site, []).append(field.median)

    def valued(self) -> list[Place]:
        return [
            Place(*key, levels, self._asked(key)) for key, levels in sorted(self._levels.items())
        ]

    def fields(self) -> list[Place]:
        return [Place(*key, seen, self._asked(key)) for key, seen in sorted(self._fields.items())]

    def _asked(self, key: _Key) -> Mapping[str, int]:
        return {site: len(seen) for site, seen in self._fields[key].items()}


def _key(field: FieldSeen) -> str:
    """The label, column or JSON key itself."""
    return field.name.rpartition(".")[2].removesuffix("[]")


class Injection(NamedTuple):
    """`nodes` ask it, and are past the warm-up for it. `words` name it in a finding."""

    change: Change
    nodes: frozenset[NodeId]
    words: tuple[str, ...]


def injections(survey: Survey, seed: int, *, each: int) -> list[Injection]:
    """Up to `each` of units, names and levels, the same for a seed; and every source dead."""
    chosen: list[Injection] = []
    for number, name in enumerate(("unit", "moved", "renamed")):
        there = list(_of_kind(name, survey, seed))
        there.sort(key=lambda one: uniform(stream(seed, "drift", one.change.name, number), 0))
        chosen += there[:each]
    for source, counts in sorted(survey.sources.items()):
        nodes = frozenset(node for node, count in counts.items() if count >= LEAST_SEEN)
        chosen.append(Injection(Change(kind="dead", source=source), nodes, (source,)))
    return chosen


def _of_kind(kind: str, survey: Survey, seed: int) -> Iterator[Injection]:
    places = survey.fields() if kind == "renamed" else survey.valued()
    grouped: dict[tuple[str, str, str], list[Place]] = {}
    for place in places:
        if not place.sites or (kind == "renamed" and place.field in (*NO_LABEL, VALUE)):
            continue
        if kind != "renamed" and place.source == "metrics" and place.field != VALUE:
            continue
        if kind != "renamed" and (place.field in IDS or _is_flag(place)):
            continue
        grouped.setdefault((place.source, place.target, place.field), []).append(place)
    for number, ((source, target, field), some) in enumerate(sorted(grouped.items())):
        sites = sorted({site for place in some for site in place.sites})
        factors: dict[str, float] = {}
        asking = some
        if kind == "unit":
            site = max(sites, key=lambda one: sum(place.asked.get(one, 0) for place in some))
            factors = {site: UNITS[number % len(UNITS)]}
            asking = [place for place in some if site in place.sites]
        elif kind == "moved":
            factors = {site: 10.0 ** (SIGMAS * _sigma(some, site)) for site in sites}
        yield Injection(
            Change(kind=kind, source=source, target=target, field=field, factors=factors),
            frozenset(place.node for place in asking),
            (target, field),
        )


def _is_flag(place: Place) -> bool:
    """0 and 1, which are in no unit."""
    return all(level == 0.0 for seen in place.levels.values() for level in seen)


def _sigma(places: Sequence[Place], site: str) -> float:
    """The largest robust standard deviation of the middles at the site, of the nodes that ask it:
    what the monitor takes for one."""
    found = []
    for place in places:
        seen = sorted(place.levels.get(site, ()))
        if len(seen) >= LEAST_SEEN:
            middle = seen[(len(seen) - 1) // 2]
            away = sorted(abs(one - middle) for one in seen)
            found.append(max(FIGURES["level"].least, 1.4826 * away[(len(away) - 1) // 2]))
    return max(found, default=FIGURES["level"].least)
