"""What truly was on the dock, which no source of the daemon tells; and which walks to show."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from bench.replay.alerts import HistoricalAlert
from bench.replay.score import AFTERGLOW_S, related
from bench.world.minutes import Episode

Document = Mapping[str, Any]

NO_FAULT = "not_"
TOLD = 3  # episodes in one line
JUST_OVER_S = 900


class Truth:
    def __init__(self, episodes: Sequence[Episode]) -> None:
        self._of_site: dict[int, list[Episode]] = {}
        for one in episodes:
            self._of_site.setdefault(one.site, []).append(one)

    def real(self, document: Document, alert: HistoricalAlert) -> dict[str, bool]:
        """Each root cause of the decision, and whether a fault of that kind was on, or had ended
        within the last hour, on that asset or on one that holds it or lies in it."""
        near = self._near(alert, AFTERGLOW_S)
        return {
            cause["node"]: any(
                f"rc_{one.fault}" == cause["node"] and related(one.asset, cause["subject"])
                for one in near
            )
            for cause in document["root_causes"]
        }

    def told(self, document: Document, alert: HistoricalAlert) -> str:
        """What was on, or had just ended, where the alert or one of its causes is."""
        places = {alert.entity, *(cause["subject"] for cause in document["root_causes"])}
        near = self._near(alert, JUST_OVER_S, places)
        faults = [_told(one) for one in near if not one.fault.startswith(NO_FAULT)]
        others = [_told(one) for one in near if one.fault.startswith(NO_FAULT)]
        text = "; ".join(faults[:TOLD]) or "no fault"
        return f"{text} (but a {'; '.join(others[:TOLD])})" if others else text

    def quiet(self, alert: HistoricalAlert) -> bool:
        """Whether there was no fault where the alert is, and no look-alike either."""
        return not self._near(alert, JUST_OVER_S, {alert.entity})

    def _near(
        self, alert: HistoricalAlert, afterglow_s: int, places: Collection[str] = ("",)
    ) -> list[Episode]:
        return [
            one
            for one in self._of_site.get(alert.site, ())
            if one.start <= alert.at <= one.end + afterglow_s
            and any(related(one.asset, place) for place in places)
        ]


def _told(one: Episode) -> str:
    kind = one.fault.removeprefix(NO_FAULT).replace("_", " ")
    where = f" on {one.asset}" if one.asset else ""
    return f"{kind}{where}, {_clock(one.start)} to {_clock(one.end)}"


def _clock(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%H:%M")


# --- what came of an alert --------------------------------------------------------------------

_ALONE: Mapping[str, str] = {
    "close_alert": "closed",
    "watch_15_min": "watched",
    "check_data_feed": "no data",
}
CAME: Mapping[str, str] = {
    "closed": "green",
    "watched": "cyan",
    "no data": "yellow",
    "acted": "magenta",
    "escalated": "bold red",
}
"""All that may come of an alert on the dock, and how it looks."""


def came_of(document: Document) -> str:
    """One of CAME: a decision's own outcome does not tell closing from repairing."""
    actions = [str(action["action"]) for action in document["actions"]]
    if document["outcome"] == "escalate" or "escalate_ops_lead" in actions:
        return "escalated"
    return _ALONE.get(actions[0], "acted") if len(set(actions)) == 1 else "acted"


# --- walks to show whole ----------------------------------------------------------------------

FITS = 9  # nodes that a screen has room for
DEEP = 5  # layers


@dataclass(frozen=True, slots=True, kw_only=True)
class Pick:
    """A kind of walk. `suits` is given the decision, whether all its causes are real, and whether
    nothing was going on where the alert is."""

    title: str
    suits: Callable[[Document, bool, bool], bool]


def _guarded(document: Document, real: bool, _quiet: bool) -> bool:
    judged = [
        node
        for node in document["nodes"]
        if node["kind"] == "constraint" and node["verdict"] != "no_data"
    ]
    return (
        real
        and bool(document["root_causes"] and judged)
        and came_of(document) == "acted"
        and any(action["cost"] == "high" for action in document["actions"])
    )


def _cascade(document: Document, real: bool, _quiet: bool) -> bool:
    deepest = max((node["layer"] for node in document["nodes"]), default=0)
    return real and bool(document["root_causes"]) and deepest + 1 >= DEEP


def _without_data(document: Document, _real: bool, _quiet: bool) -> bool:
    """That goes on all the same, rather than end there."""
    nodes = {node["node"] for node in document["nodes"]}
    return any(word == "no_data" and target in nodes for _, word, target in document["edges"])


def _escalated(document: Document, real: bool, _quiet: bool) -> bool:
    return real and bool(document["root_causes"]) and came_of(document) == "escalated"


def _closed(document: Document, _real: bool, quiet: bool) -> bool:
    return quiet and came_of(document) == "closed"


PICKS = (
    Pick(title="A costly action, and what was asked before it", suits=_guarded),
    Pick(title="A cascade, followed to its cause", suits=_cascade),
    Pick(title="Handed to a person, with the facts", suits=_escalated),
    Pick(title="Where data are missing, the walk goes on without them", suits=_without_data),
    Pick(title="A false alarm, closed", suits=_closed),
)
"""Each is shown once; a walk that suits several is the first of them that is still wanted."""


def pick_of(wanted: Sequence[Pick], document: Document, *, real: bool, quiet: bool) -> Pick | None:
    """The first of `wanted` that the decision suits and a screen has room for."""
    if len(document["nodes"]) > FITS:
        return None
    return next((pick for pick in wanted if pick.suits(document, real, quiet)), None)
