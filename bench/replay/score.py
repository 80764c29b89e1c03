"""How often a run was right: against the annotator, and against the faults that truly were."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import sqrt
from typing import Any

from bench.annotator.walk import Annotation
from bench.replay.alerts import HistoricalAlert
from bench.world.layout import LAYOUT, name
from bench.world.minutes import Episode
from triage.model.decision import Decision, Outcome

AFTERGLOW_S = 3600
"""A window may still show a fault that ended: the longest one that a root cause looks through."""

Z_95 = 1.959963984540054

_LATE = ("al_chute_full", "al_container_lag", "al_staging_over", "al_departure_risk")
_CELL = ("al_pick_fail_high", "al_robot_cell_down", "al_induct_rate_low")
CAUSES: Mapping[str, frozenset[str]] = {
    f"rc_{fault}": frozenset(alarms)
    for fault, alarms in {
        "safety_stop": ("al_robot_cell_down", "al_sorter_stopped"),
        "drive_fault": ("al_drive_warning", "al_robot_cell_down", "al_sorter_stopped"),
        "drive_overload": ("al_drive_warning", "al_jam_repeat"),
        "air_pressure_low": ("al_pick_fail_high", "al_divert_fail_high", "al_recirc_high"),
        "photo_eye_dirty": ("al_jam_repeat", "al_infeed_backup", "al_chute_full"),
        "scan_lens_dirty": ("al_no_read_high", "al_recirc_high"),
        "label_print_poor": ("al_no_read_high", "al_recirc_high"),
        "gap_loss": ("al_jam_repeat", "al_no_read_high", "al_recirc_high"),
        "no_destination": ("al_recirc_high", "al_divert_fail_high"),
        "divert_worn": ("al_divert_fail_high", "al_recirc_high"),
        "cup_worn": _CELL,
        "vacuum_filter_clogged": _CELL,
        "vision_degraded": _CELL,
        "item_mix_hard": ("al_pick_fail_high", "al_no_read_high", "al_jam_repeat"),
        "container_short": ("al_chute_full", "al_container_lag"),
        "trailer_absent": ("al_chute_full", "al_staging_over", "al_departure_risk"),
        "door_fault": ("al_staging_over", "al_departure_risk"),
        "labor_short": _LATE,
        "volume_over_plan": (*_LATE, "al_infeed_backup"),
        "upstream_stop": ("al_induct_rate_low", "al_departure_risk"),
        "carriers_out": ("al_induct_rate_low", "al_infeed_backup"),
        "tracking_slip": ("al_divert_fail_high", "al_recirc_high", "al_sorter_stopped"),
    }.items()
}
"""The alarms that a fault raises, by its signature and what it does up and down the flow."""


# --- against the annotator --------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One alert that was not decided as the annotator has it. Each part is (ours, theirs)."""

    alert: HistoricalAlert
    observed: tuple[Sequence[str], Sequence[str]] | None = None
    root_causes: tuple[Sequence[str], Sequence[str]] | None = None
    actions: tuple[Sequence[str], Sequence[str]] | None = None
    verdicts: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    outcome: tuple[str, str] | None = None

    def __bool__(self) -> bool:
        return bool(
            self.observed or self.root_causes or self.actions or self.verdicts or self.outcome
        )


def difference(alert: HistoricalAlert, decision: Decision, right: Annotation) -> Difference:
    """What the decision and the annotation disagree on; false when on nothing."""
    ours: dict[str, str] = {result.node: result.word for result in decision.nodes}
    theirs = {node: judged.value for node, judged in right.verdicts.items()}
    return Difference(
        alert=alert,
        outcome=_unequal(decision.outcome.value, right.outcome),
        observed=_unequal(sorted(decision.observed), sorted(right.observed)),
        root_causes=_unequal(
            sorted(f"{cause.node}:{cause.subject}" for cause in decision.root_causes),
            sorted(f"{node}:{subject}" for node, subject in right.root_causes),
        ),
        actions=_unequal(
            sorted(f"{action.action}:{action.subject}" for action in decision.actions),
            sorted(f"{taken.action}:{taken.subject}" for taken in right.actions),
        ),
        verdicts={
            node: (ours.get(node, "-"), theirs.get(node, "-"))
            for node in sorted(ours.keys() | theirs.keys())
            if ours.get(node) != theirs.get(node)
        },
    )


def _unequal(ours: Any, theirs: Any) -> Any:
    return None if ours == theirs else (ours, theirs)


# --- against the faults -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """`hits` of `of`, with the 95 % interval of Wilson (1927), in which alerts of one episode
    count as if they were independent: it is narrower than it should be."""

    hits: int
    of: int

    @property
    def value(self) -> float:
        return self.hits / self.of if self.of else float("nan")

    @property
    def interval(self) -> tuple[float, float]:
        if not self.of:
            return (float("nan"), float("nan"))
        n, p = self.of, self.value
        middle = (p + Z_95**2 / (2 * n)) / (1 + Z_95**2 / n)
        half = Z_95 * sqrt(p * (1 - p) / n + Z_95**2 / (4 * n * n)) / (1 + Z_95**2 / n)
        return (max(0.0, middle - half), min(1.0, middle + half))


@dataclass(frozen=True, slots=True, kw_only=True)
class LatentScore:
    """`precision`: of the root causes named, those that a fault of that kind, on that asset or on
    one that holds it or lies in it, had caused. `recall`: of the faults that were on at the alert,
    on its own asset or the whole site, that raise this alarm (CAUSES) and that the alarm's tree
    has a node for, those named.

    `misses` and `false_alarms` count (root cause, why); the whys are in `explain`.
    """

    precision: Rate
    recall: Rate
    misses: Counter[tuple[str, str]]
    false_alarms: Counter[tuple[str, str]]
    by_fault: Mapping[str, tuple[Rate, Rate]]


def latent_score(
    decided: Iterable[tuple[HistoricalAlert, Decision, Annotation]],
    episodes: Sequence[Episode],
    reachable: Mapping[str, frozenset[str]],
    leads_to: LeadsTo,
) -> LatentScore:
    """`reachable` maps an alarm to the root causes of its tree; `leads_to` gives the nodes that
    an answer leads to, directly or not."""
    by_site: dict[int, list[Episode]] = {}
    for episode in episodes:
        by_site.setdefault(episode.site, []).append(episode)
    named: dict[str, list[bool]] = {}
    found: dict[str, list[bool]] = {}
    misses: Counter[tuple[str, str]] = Counter()
    false_alarms: Counter[tuple[str, str]] = Counter()
    for alert, decision, right in decided:
        if decision.outcome is Outcome.RESOLVED:
            continue
        near = [
            one
            for one in by_site.get(alert.site, ())
            if one.start <= alert.at <= one.end + AFTERGLOW_S
        ]
        causes: dict[str, str] = {c.node: c.subject for c in decision.root_causes}
        for node, subject in causes.items():
            hit = any(f"rc_{one.fault}" == node and related(one.asset, subject) for one in near)
            named.setdefault(node, []).append(hit)
            if not hit:
                false_alarms[node, _why_named(node, near, right)] += 1
        for one in near:
            node = f"rc_{one.fault}"
            if (
                one.end >= alert.at
                and node in reachable[alert.alarm]
                and alert.alarm in CAUSES.get(node, ())
                and related(one.asset, alert.entity)
            ):
                hit = node in causes
                found.setdefault(node, []).append(hit)
                if not hit:
                    misses[node, _why_missed(node, decision, right, leads_to)] += 1
    nodes = sorted(named.keys() | found.keys())
    return LatentScore(
        precision=_rate([hit for hits in named.values() for hit in hits]),
        recall=_rate([hit for hits in found.values() for hit in hits]),
        misses=misses,
        false_alarms=false_alarms,
        by_fault={node: (_rate(named.get(node, [])), _rate(found.get(node, []))) for node in nodes},
    )


def _rate(hits: Sequence[bool]) -> Rate:
    return Rate(hits=hits.count(True), of=len(hits))


NOT_REACHED = "not reached"
LeadsTo = Callable[[str, str], frozenset[str]]

EXPLAIN: Mapping[str, str] = {
    NOT_REACHED: "an observation before it did not hold, or had too little to go by",
    "rule says no": "the fault was too weak, too young or too old for the rule's figures",
    "no data": "what the rule needs was missing",
    "failed": "nobody could answer",
    "a fault of ours": "the annotator finds it by the same rule: the tool is wrong",
    "just over": "nothing of the kind was on; the rule's figures were met all the same",
    "another fault": "another fault was on that looks the same to the rule",
}


def _why_missed(node: str, decision: Decision, right: Annotation, leads_to: LeadsTo) -> str:
    ours: dict[str, str] = {result.node: result.word for result in decision.nodes}
    theirs = right.verdicts.get(node)
    if theirs is not None and theirs.value == "true":
        return "a fault of ours"
    match ours.get(node):
        case None:
            return f"{NOT_REACHED}: {_turned_at(node, ours, leads_to)}"
        case "no_data":
            return "no data"
        case "failed":
            return "failed"
        case _:
            return "rule says no"


def _turned_at(node: str, ours: Mapping[str, str], leads_to: LeadsTo) -> str:
    """The answer by which the walk turned away from `node`: the last that had another way there."""
    turns = [
        f"{passed} {word}"
        for passed, word in ours.items()
        if node not in leads_to(passed, word)
        and any(node in leads_to(passed, other) for other in ("true", "false", "no_data"))
    ]
    return turns[-1] if turns else "-"


def _why_named(node: str, near: Sequence[Episode], right: Annotation) -> str:
    theirs = right.verdicts.get(node)
    if theirs is None or theirs.value != "true":
        return "a fault of ours"
    return "another fault" if near else "just over"


def related(one: str, other: str) -> bool:
    """Whether one asset is the other, holds it, lies in it, or either is the whole site."""
    ours, theirs = lineage(one), lineage(other)
    return not ours or not theirs or ours[0] in theirs or theirs[0] in ours


SITE_WIDE = ("LS", "SG", "AIR")


def lineage(asset: str) -> tuple[str, ...]:
    """The asset and what holds it, from the layout's numbers; empty for the whole site."""
    prefix, _, digits = asset.partition("-")
    if not digits or prefix in SITE_WIDE:
        return ()
    number = int(digits)
    match prefix:
        case "CH":
            above = name("STG", (number - 1) // LAYOUT["chutes_per_lane"] + 1)
        case "DD":
            above = name("STG", (number - 1) // LAYOUT["doors_per_lane"] + 1)
        case "STG":
            above = name("ZN", (number - 1) // LAYOUT["lanes_per_zone"] + 1)
        case "PE":
            above = name("INF", number // 10)
        case "DRV" if number >= 10:
            above = name("RC", number - 10)
        case "DRV" if number:
            above = name("INF", number)
        case "DRV":
            return ()
        case _:
            return (asset,)
    return (asset, *lineage(above))
