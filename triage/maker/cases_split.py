"""Which cases a tool is made with, and which it is tested with: by time, never apart what is one.

Cases of one site within `gap_s` of each other see nearly the same data: a tool that has learned one
by heart would pass the other. So no cut goes between them, nor between any two of one instant.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from triage.model.case import LabelledCase
from triage.sop.sites import Sites

GAP_S = 3600.0  # seconds
SHARE = 0.5


class Split(NamedTuple):
    """Each part by time. Cases before `cut` train, the others are held out, but for those that
    say themselves where they belong. `cut` is None when no instant may part them."""

    train: tuple[LabelledCase, ...]
    heldout: tuple[LabelledCase, ...]
    cut: datetime | None

    @property
    def verdicts(self) -> Mapping[str, Mapping[str, int]]:
        """How many cases of each part (`train`, `heldout`) expect which verdict."""
        return {
            part: dict(sorted(Counter(case.expected for case in cases).items()))
            for part, cases in (("train", self.train), ("heldout", self.heldout))
        }


def split_cases(
    cases: Sequence[LabelledCase],
    *,
    share: float = SHARE,
    gap_s: float = GAP_S,
    sites: Sites | None = None,
) -> Split:
    """About `share` of `cases` for training. Deterministic, whatever their order.

    `share` is above 0 and at most 1, where nothing is held out unless it says so itself. With
    `sites` a site's names are one site. Where no cut is possible all train that do not say
    otherwise. Raises ValueError for another share.
    """
    if not 0 < share <= 1:
        raise ValueError("share must be above 0 and at most 1")
    ordered = sorted(cases, key=lambda case: (case.timestamp, case.case_id))
    train = [case for case in ordered if case.split == "train"]
    heldout = [case for case in ordered if case.split == "heldout"]
    free = [case for case in ordered if not case.split]
    # Between its ends only: a part that is empty tells nothing, unless it has cases of its own.
    first, last = 0 if train else 1, len(free) if heldout else len(free) - 1
    whole = _undivided(free, gap_s, sites)
    places = [place for place in range(first, last + 1) if place not in whole]
    if share == 1 or not places:
        place = len(free)
    else:
        wanted = share * len(ordered) - len(train)
        place = min(places, key=lambda place: (abs(place - wanted), place))
    return Split(
        train=_by_time(train + free[:place]),
        heldout=_by_time(heldout + free[place:]),
        cut=free[place].timestamp if place < len(free) else None,
    )


def _undivided(
    ordered: Sequence[LabelledCase], gap_s: float, sites: Sites | None
) -> frozenset[int]:
    """The places (before the case of that index) where a cut would part what is one."""
    opened = [0] * (len(ordered) + 1)
    latest: dict[str, int] = {}
    for index, case in enumerate(ordered):
        site = sites.profile(case.warehouse).site.name if sites is not None else case.warehouse
        before = latest.get(site)
        if before is not None and _apart_s(ordered[before], case) <= gap_s:
            opened[before + 1] += 1
            opened[index + 1] -= 1
        if index and ordered[index - 1].timestamp == case.timestamp:
            opened[index] += 1
            opened[index + 1] -= 1
        latest[site] = index
    whole: set[int] = set()
    depth = 0
    for place, change in enumerate(opened):
        depth += change
        if depth:
            whole.add(place)
    return frozenset(whole)


def _apart_s(earlier: LabelledCase, later: LabelledCase) -> float:
    return (later.timestamp - earlier.timestamp).total_seconds()


def _by_time(cases: Sequence[LabelledCase]) -> tuple[LabelledCase, ...]:
    return tuple(sorted(cases, key=lambda case: (case.timestamp, case.case_id)))
