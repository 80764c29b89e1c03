"""What a node's cases do not cover: verdicts, sites, parents' verdicts, boundaries, times, answers.

A tool that passes its cases is only as good as they are. Nothing here is an error: it is what the
next case should be about.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from math import isfinite
from typing import Any, NamedTuple

from triage.maker.cases_split import Split
from triage.model.case import LabelledCase, cases_said
from triage.model.decision import NodeId
from triage.model.site import ParamValue
from triage.model.verdict import WORDS, Clause
from triage.sop.located import plain
from triage.sop.procedure import Sop
from triage.sop.sites import Sites
from triage.trial.model import Tried

FEW_CASES = 20
RARE = 3  # cases of a part; or RARE_SHARE of it, where that is more
RARE_SHARE = 0.05
NEAR = 0.1  # of the threshold
NEAR_COUNT = 1  # of a threshold that is a count
DAY_S = 86_400.0  # seconds
PARTS = {"train": "training", "heldout": "held-out"}


class Lack(NamedTuple):
    """One thing that no case, or hardly any, is about. `kind` is cases, day, part, verdict, site,
    parent, boundary or answers; `part` is train or heldout where it is of one part only; `what`
    names the verdict, site, parent or param. `text` is one line for people."""

    kind: str
    what: str
    text: str
    part: str = ""


class Coverage(NamedTuple):
    """`verdicts` counts by part and word, `sites` by the site's first name, those of the sites file
    first; `answered` is how many cases have recorded answers. `boundaries` tells whether trials
    were there to look for them."""

    node: NodeId
    cases: int
    verdicts: Mapping[str, Mapping[str, int]]
    sites: Mapping[str, int]
    answered: int
    boundaries: bool
    lacks: tuple[Lack, ...]

    def lines(self) -> list[str]:
        """For people: what there is, then what there is not."""
        parts = (
            f"{PARTS[part]}: " + ", ".join(f"{count} {word}" for word, count in counts.items())
            for part, counts in self.verdicts.items()
        )
        sites = ", ".join(
            f"{plain(site) or 'no site'} {count}" for site, count in self.sites.items()
        )
        return [
            f"{cases_said(self.cases)}; {'; '.join(parts)}",
            *([f"sites: {sites}"] if self.cases else []),
            *(f"not covered: {lack.text}" for lack in self.lacks),
        ]

    def document(self) -> dict[str, Any]:
        """As JSON types."""
        return {
            "node": self.node,
            "cases": self.cases,
            "verdicts": {part: dict(counts) for part, counts in self.verdicts.items()},
            "sites": dict(self.sites),
            "answered": self.answered,
            "boundaries": self.boundaries,
            "lacks": [lack._asdict() for lack in self.lacks],
        }


def coverage(
    node: NodeId,
    split: Split,
    sop: Sop,
    sites: Sites,
    tried: Mapping[str, Tried] | None = None,
) -> Coverage:
    """What the cases of `split` cover of `node`. `tried` maps a case's id to what a tool came to
    there, for all or some of them; without, boundaries are not reported."""
    cases = (*split.train, *split.heldout)
    targets = sop.nodes[node].targets
    verdicts = {
        part: {word: counts.get(word, 0) for word in WORDS if targets[word] or word in counts}
        for part, counts in split.verdicts.items()
    }
    by_site = Counter(sites.profile(case.warehouse).site.name for case in cases)
    known = dict.fromkeys(profile.site.name for profile in sites.profiles.values())
    lacks = [
        *_few(cases, split),
        *_verdicts(split, verdicts, {word for word in WORDS if targets[word]}),
        *(Lack("site", site, f"site {plain(site)}") for site in known if not by_site[site]),
        *_parents(node, cases, sop),
        *(_boundaries(cases, tried, sop, sites) if tried is not None else ()),
        *_answers(cases),
    ]
    return Coverage(
        node=node,
        cases=len(cases),
        verdicts=verdicts,
        sites={site: by_site[site] for site in (known | dict.fromkeys(sorted(by_site)))},
        answered=sum(1 for case in cases if case.answers),
        boundaries=tried is not None,
        lacks=tuple(lacks),
    )


def _few(cases: Sequence[LabelledCase], split: Split) -> Iterator[Lack]:
    if len(cases) < FEW_CASES:
        yield Lack("cases", "", f"there are {len(cases)} cases, fewer than {FEW_CASES}")
    if not cases:
        return
    times = [case.timestamp for case in cases]
    first, last = min(times), max(times)
    if len(cases) > 1 and (last - first).total_seconds() < DAY_S:
        text = f"all cases are of one day, from {_second(first)} to {_second(last)}"
        yield Lack("day", "", text)
    for part, of_it in (("train", split.train), ("heldout", split.heldout)):
        if not of_it:
            text = f"there are no {PARTS[part]} cases"
            if split.cut is None and len(cases) > 1:
                text += ": at one site they follow each other too closely to be parted"
            yield Lack("part", "", text, part)


def _verdicts(
    split: Split, verdicts: Mapping[str, Mapping[str, int]], led_by: set[str]
) -> Iterator[Lack]:
    for part, cases in (("train", split.train), ("heldout", split.heldout)):
        least = max(RARE, RARE_SHARE * len(cases))
        for word, count in verdicts[part].items():
            if not cases or word not in led_by or count >= least:
                continue
            if count:
                verb = "expects" if count == 1 else "expect"
                text = f"only {count} of {len(cases)} {PARTS[part]} cases {verb} {word}"
            else:
                text = f"no {PARTS[part]} case expects {word}"
            yield Lack("verdict", word, text, part)


def _parents(node: NodeId, cases: Sequence[LabelledCase], sop: Sop) -> Iterator[Lack]:
    """Of the nodes that lead here, which of their verdicts that do so no case has."""
    seen = {(name, verdict.value.word) for case in cases for name, verdict in case.parents.items()}
    for parent in sop.nodes.values():
        for word in WORDS:
            if cases and node in parent.targets[word] and (parent.node, word) not in seen:
                text = f"no case says that {parent.node} said {word}, which leads here"
                yield Lack("parent", parent.node, text)


def _answers(cases: Sequence[LabelledCase]) -> Iterator[Lack]:
    without = sum(1 for case in cases if not case.answers)
    if without:
        few = f"{without} of {len(cases)} cases have no"
        text = "no case has" if without == len(cases) else few
        yield Lack("answers", "", f"{text} recorded answers: the sources are asked for them")


def _second(moment: Any) -> str:
    return str(moment.isoformat(timespec="seconds"))


# --- boundaries -------------------------------------------------------------------------------


class _Point(NamedTuple):
    """A clause of one case, with the params that held there."""

    observed: float
    threshold: float
    holds: bool
    params: Mapping[str, ParamValue]


def _boundaries(
    cases: Sequence[LabelledCase], tried: Mapping[str, Tried], sop: Sop, sites: Sites
) -> Iterator[Lack]:
    """By clause: a threshold that no figure came near, where the clause held or where it did not.
    A threshold of 0 has no tenth; a figure meets it or not."""
    points: dict[tuple[str, str, str], list[_Point]] = {}
    for case in cases:
        if (outcome := tried.get(case.case_id)) is None:
            continue
        params = {**sites.profile(case.warehouse).params, **case.params}
        for clause in outcome.clauses:
            if (point := _point(clause, params)) is not None:
                points.setdefault((clause.name, clause.op, clause.unit), []).append(point)
    for (name, op, unit), of_it in points.items():
        counted = all(one.observed.is_integer() and one.threshold.is_integer() for one in of_it)
        near = {one.holds for one in of_it if _near(one, counted)}
        for holds in (True, False):
            if holds not in near:
                param = _param(of_it, sop)
                yield _far(name, op, unit, param, of_it, holds)


def _far(name: str, op: str, unit: str, param: str, points: Sequence[_Point], holds: bool) -> Lack:
    thresholds = {one.threshold for one in points}
    value = f" {thresholds.pop():g}" if len(thresholds) == 1 else " its threshold"
    of_param = f" (param {param})" if param else ""
    side = "holds" if holds else "does not hold"
    rule = f"{plain(name)} {plain(op)}{value}{' ' if unit else ''}{plain(unit) if unit else ''}"
    text = f"no case is near the boundary {rule}{of_param} where it {side}"
    return Lack("boundary", param or name, text)


def _point(clause: Clause, params: Mapping[str, ParamValue]) -> _Point | None:
    observed, threshold = _number(clause.observed), _number(clause.threshold)
    if observed is None or threshold is None or clause.holds is None:
        return None
    return _Point(observed, threshold, clause.holds, params)


def _near(point: _Point, counted: bool) -> bool:
    apart = abs(point.observed - point.threshold)
    return apart <= NEAR * abs(point.threshold) or (counted and apart <= NEAR_COUNT)


def _param(points: Sequence[_Point], sop: Sop) -> str:
    """The one param whose value the threshold is in every case; empty where there is none such."""
    fitting = [
        name
        for name in sop.params
        if all(_number(point.params.get(name)) == point.threshold for point in points)
    ]
    return fitting[0] if len(fitting) == 1 else ""


def _number(value: object) -> float | None:
    """Text, truth values and what is not finite are none."""
    if isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value):
        return float(value)
    return None
