"""One slot of one node against its own past: its fields, how much came, where its values lie.

Each site has a past of its own. Evidence that values moved is gathered for each site, and once more
over all of them, where each value counts by its rank at its own site: what changes everywhere is
then seen as fast as the node is asked, whatever units the sites report in.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, Self

from triage.errors import ToolFailure
from triage.ports.watching import WatchKind
from triage.watching.drift_evidence import ALARM, Share, Streak, median
from triage.watching.drift_moved import FIGURES, Moved, SiteFigure
from triage.watching.features import VALUE, FieldSeen, SlotSeen

SHOWN = 4  # of the newest, whose middle is told
MAX_SITES = 64
LEAST_WEIGHT = 0.3
"""For fields and types: they hang less on the hour than values do."""
AS = " as "  # between a field and one of its types
MAX_TOKENS = 160  # fields and their types, of one slot at one site
MAX_FIGURES = 64

QUERY_REJECTED = ToolFailure.QUERY_REJECTED.value
UNITS: Mapping[float, str] = {
    1000.0: "as between s and ms",
    100.0: "as between percent and fraction",
    60.0: "as between minutes and seconds",
    3600.0: "as between hours and seconds",
    1024.0: "as between B and KiB",
    196.85: "as between m/s and ft/min",
    14.504: "as between bar and psi",
    25.4: "as between inches and mm",
    2.2046: "as between kg and lb",
    3.2808: "as between m and ft",
}
NEAR = 0.08  # relative


class Alarm(NamedTuple):
    """What holds now. `subject` is the slot, with its field where it is about one."""

    kind: WatchKind
    subject: str
    detail: str
    evidence: Mapping[str, Any]


class SiteSlot:
    """At one site. `holders` counts how often a path held anything, and (`lane as `) how often a
    field had a type: what is first seen after n such times had never been there n times.

    `odd`, `moved` and `nulls` sum up what was seen last, so that an evaluation at one site costs no
    look at every field of all the others: the tokens with evidence, the figures whose alarm holds,
    and the highest share of nulls.
    """

    __slots__ = ("empty", "figures", "holders", "moved", "nulls", "odd", "tokens")

    def __init__(self) -> None:
        self.odd: dict[str, Streak] = {}
        self.moved: frozenset[str] = frozenset()
        self.nulls = 0.0
        self.holders: dict[str, int] = {}
        self.tokens: dict[str, tuple[str, Streak]] = {}
        """What is looked for (`lane`, `lane as text`) to where (its holder), and how it went."""
        self.empty = Share()
        self.figures: dict[str, SiteFigure] = {}

    def see_fields(self, seen: SlotSeen, weight: float) -> int:
        """How many fields and types there was no room for."""
        fields = {field.name: field for field in seen.fields}
        left_out = 0
        there: dict[str, str] = {}
        for field in seen.fields:
            there[field.name] = field.inside
            for kind in field.types:
                there[f"{field.name}{AS}{kind}"] = field.inside
        for token, inside in there.items():
            if token not in self.tokens:
                if len(self.tokens) >= MAX_TOKENS:
                    left_out += 1
                    continue
                name, is_type, _ = token.partition(AS)
                before = self.holders.get(f"{name}{AS}" if is_type else inside, 0)
                self.tokens[token] = (inside, Streak(False, float(before)) if before else Streak())
        for token, (inside, streak) in self.tokens.items():
            name, _, kind = token.partition(AS)
            # A type can only be missed in a field that is there and not null.
            known = inside in seen.holders if not kind else bool(fields.get(name, NOTHING).types)
            if known:
                streak.see(token in there, max(weight, LEAST_WEIGHT))
        typed = (f"{field.name}{AS}" for field in seen.fields if field.types)
        for holder in (*seen.holders, *typed):
            self.holders[holder] = self.holders.get(holder, 0) + 1
        return left_out

    def sum_up(self) -> None:
        self.odd = {
            token: streak for token, (_, streak) in self.tokens.items() if streak.log_evidence > 0
        }
        self.moved = frozenset(name for name, one in self.figures.items() if one.moved.open)
        self.nulls = max(
            (
                median(one.reference.newest)
                for name, one in self.figures.items()
                if name.endswith("|nulls")
            ),
            default=0.0,
        )

    def document(self) -> list[Any]:
        return [
            self.holders,
            {token: [inside, *one.document()] for token, (inside, one) in self.tokens.items()},
            self.empty.document(),
            {name: one.document() for name, one in self.figures.items()},
        ]

    @classmethod
    def of(cls, document: list[Any]) -> Self:
        made = cls()
        holders, tokens, empty, figures = document
        made.holders = {str(name): int(count) for name, count in holders.items()}
        made.tokens = {
            token: (inside, Streak.of(streak)) for token, (inside, *streak) in tokens.items()
        }
        made.empty = Share.of(empty)
        made.figures = {name: SiteFigure.of(one) for name, one in figures.items()}
        made.sum_up()
        return made


class SlotDrift:
    """`left_out` counts what there was no room for: nothing is unwatched in silence."""

    __slots__ = ("_detail", "_everywhere", "_refused", "_sites", "left_out", "slot")

    def __init__(self, slot: str) -> None:
        self.slot = slot
        self.left_out = 0
        self._sites: dict[str, SiteSlot] = {}
        self._everywhere: dict[str, Moved] = {}
        self._refused = Streak()
        self._detail = ""

    def see(self, seen: SlotSeen, site: str, moment: float, weight: float) -> None:
        """`moment` is the alert's, seconds since the epoch; `weight`, in [0, 1], is how much of
        this is new."""
        if seen.failure:
            if seen.failure == QUERY_REJECTED:
                self._refused.see(True, weight)
                self._detail = seen.detail
            return
        self._refused.see(False, weight)
        at = self._sites.get(site)
        if at is None:
            if len(self._sites) >= MAX_SITES:
                self.left_out += 1
                return
            at = self._sites[site] = SiteSlot()
        at.empty.see(seen.size == 0, weight)
        if seen.size == 0 or seen.wide:
            return
        self.left_out += at.see_fields(seen, weight)
        for name, value in figures_of(seen):
            self._see_figure(at, name, value, moment, weight)
        at.sum_up()

    def _see_figure(
        self, at: SiteSlot, name: str, value: float, moment: float, weight: float
    ) -> None:
        figure = FIGURES[name.rpartition("|")[2]]
        everywhere = self._everywhere.get(name)
        if everywhere is None:
            if len(self._everywhere) >= MAX_FIGURES:
                self.left_out += 1
                return
            everywhere = self._everywhere[name] = Moved()
        here = at.figures.get(name)
        if here is None:
            here = at.figures[name] = SiteFigure()
        ranked = here.see(figure, value, moment, weight, learn=not everywhere.open)
        if ranked is not None and everywhere.see(figure, ranked, weight):
            for one in self._sites.values():
                if name in one.figures:
                    one.figures[name].reference.forget()
                    one.sum_up()

    def shares(self) -> tuple[list[float], list[float]]:
        """Of null values and of empty answers, the newest of every site."""
        sites = self._sites.values()
        return [at.nulls for at in sites], [at.empty.recent_all for at in sites]

    # --- what holds -------------------------------------------------------------------------------

    def alarms(self) -> Iterator[Alarm]:
        if self._refused.alarms and self._refused.always is False:
            yield Alarm(
                WatchKind.SCHEMA_CHANGED,
                self.slot,
                f"the source refuses this query, which it took {self._refused.count:.0f} times"
                f" before: {self._detail}",
                {"detail": self._detail, "taken_before": round(self._refused.count)},
            )
        yield from self._field_alarms()
        for site, at in self._sites.items():
            if at.empty.open:
                yield Alarm(
                    WatchKind.GAPS,
                    self.slot,
                    f"{at.empty.recent:.0%} of the newest answers at {site} are empty;"
                    f" {at.empty.usual:.1%} were before",
                    {"site": site, "recent": at.empty.recent, "usual": at.empty.usual},
                )
        yield from self._figure_alarms()

    def _field_alarms(self) -> Iterator[Alarm]:
        found: dict[str, list[tuple[str, Streak]]] = {}
        for site, at in self._sites.items():
            for token, streak in at.odd.items():
                found.setdefault(token, []).append((site, streak))
        for token, places in found.items():
            # Of all sites at once: a chance of one and of the other.
            if sum(streak.log_evidence for _, streak in places) < ALARM:
                continue
            streak = places[0][1]
            name, _, kind = token.partition(AS)
            what = f"is {kind}" if kind else "is there"
            sites = sorted(site for site, _ in places)
            said = f"no longer {what}" if streak.always else f"now {what}, as it never was"
            yield Alarm(
                WatchKind.SCHEMA_CHANGED,
                f"{self.slot}: {name}",
                f"{name} {said} at {', '.join(sites)};"
                f" it was otherwise {streak.count:.0f} times before",
                {"field": name, "type": kind, "sites": sites, "gone": bool(streak.always)},
            )

    def _figure_alarms(self) -> Iterator[Alarm]:
        moved = {site: at for site, at in self._sites.items() if at.moved}
        for name, everywhere in self._everywhere.items():
            open_at = {site: at.figures[name] for site, at in moved.items() if name in at.moved}
            if everywhere.open or open_at:
                yield self._figure_alarm(name, open_at)

    def _figure_alarm(self, name: str, open_at: Mapping[str, SiteFigure]) -> Alarm:
        field, _, figure = name.rpartition("|")
        places = open_at or {
            site: at.figures[name]
            for site, at in self._sites.items()
            if name in at.figures and at.figures[name].reference.ready
        }
        said, evidence = [], {}
        for site, one in sorted(places.items()):
            was, now = one.reference.middle(), median(one.reference.newest[-SHOWN:])
            evidence[site] = {"was": _shown(figure, was), "now": _shown(figure, now)}
            said.append(f"{site} {change_of(figure, was, now)}")
        return Alarm(
            FIGURES[figure].kind,
            f"{self.slot}: {field}" if field else self.slot,
            f"{WORDS[figure]}{f' of {field}' if field else ''}: {'; '.join(said)}",
            {"field": field, "everywhere": not open_at, "sites": evidence},
        )

    # --- state ------------------------------------------------------------------------------------

    def document(self) -> list[Any]:
        return [
            {site: at.document() for site, at in self._sites.items()},
            {name: one.document() for name, one in self._everywhere.items()},
            self._refused.document(),
            self._detail,
            self.left_out,
        ]

    @classmethod
    def of(cls, slot: str, document: list[Any]) -> Self:
        made = cls(slot)
        sites, everywhere, refused, made._detail, made.left_out = document
        made._sites = {site: SiteSlot.of(one) for site, one in sites.items()}
        made._everywhere = {name: Moved.of(one) for name, one in everywhere.items()}
        made._refused = Streak.of(refused)
        return made


NOTHING = FieldSeen("", "", (), 0)
WORDS: Mapping[str, str] = {
    "level": "the middle of the values",
    "nulls": "the share of nulls",
    "rate": "samples per second",
}


def figures_of(seen: SlotSeen) -> Iterator[tuple[str, float]]:
    """`FIELD|FIGURE` and its value, as far as there is one."""
    if seen.rate is not None:
        yield "|rate", seen.rate
    for field in seen.fields:
        if field.median is not None:
            yield f"{field.name}|level", field.median
        if field.values and (field.name == VALUE or "number" in field.types or field.nulls):
            yield f"{field.name}|nulls", field.nulls / field.values


def _shown(figure: str, value: float) -> float:
    """In the figure's own unit, four digits."""
    return float(f"{value if figure == 'nulls' else 10.0**value:.4g}")


def change_of(figure: str, was: float, now: float) -> str:
    if figure == "nulls":
        return f"from {was:.0%} to {now:.0%}"
    factor = 10.0 ** abs(now - was)
    said = f"from {_shown(figure, was):g} to {_shown(figure, now):g}"
    unit = next((words for one, words in UNITS.items() if abs(factor / one - 1) < NEAR), "")
    return f"{said}, {'times' if now > was else 'by'} {factor:.4g}{f' {unit}' if unit else ''}"
