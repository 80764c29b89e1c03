"""Shadows as people and scripts read them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from triage.ports import Compared, Comparison, Pair, Tally
from triage.watching.shadow_report import BOUNDS, compared_of, needed, wilson


def tally_document(tally: Tally) -> dict[str, Any]:
    """`agreement` is None while nothing was compared; `interval` is its 95 % confidence interval.
    `needed` says, for each lower bound of the agreement, how many comparisons it takes at the
    share that agreed so far, None when it cannot be had at that, and how many if all agree."""
    agree, of = compared_of(tally.counts)
    share = agree / of if of else None
    return {
        **_pair_document(tally.pair),
        "counts": {result.value: tally.counts.get(result, 0) for result in Compared},
        "other_clauses": tally.other_clauses,
        "agree": agree,
        "compared": of,
        "agreement": share,
        "interval": list(wilson(agree, of)),
        "needed": [
            {
                "bound": bound,
                "comparisons": None if share is None else needed(bound, share),
                "if_all_agree": needed(bound),
            }
            for bound in BOUNDS
        ],
        "first_at": tally.first_at.isoformat(),
        "last_at": tally.last_at.isoformat(),
    }


def comparison_document(comparison: Comparison) -> dict[str, Any]:
    return {
        **_pair_document(comparison.pair),
        "result": comparison.result.value,
        "alert_id": comparison.alert_id,
        "at": comparison.at.isoformat(),
        "site": comparison.site,
        "active": comparison.active,
        "shadow": comparison.shadow,
        "differs_in": differs_in(comparison.active, comparison.shadow),
        "evidence": list(comparison.evidence),
    }


def differs_in(active: Mapping[str, Any], shadow: Mapping[str, Any]) -> list[str]:
    """Of two verdict documents; nothing when the shadow has none."""
    if "value" not in shadow:
        return []
    return [
        part for part in ("value", "subject", "clauses") if active.get(part) != shadow.get(part)
    ]


def chosen(
    tallies: Sequence[Tally], *, shadow: int | None = None, active: int | None = None
) -> Tally | None:
    """Of one node's the first, which is the newest, that is of these versions, where they are
    given."""
    return next(
        (
            tally
            for tally in tallies
            if shadow in (None, tally.pair.shadow_version)
            and active in (None, tally.pair.active_version)
        ),
        None,
    )


def not_compared(node: str, tallies: Iterable[Tally]) -> str:
    """Why there is nothing to page through, in one line."""
    there = ", ".join(
        f"v{one.pair.shadow_version} beside v{one.pair.active_version}" for one in tallies
    )
    if not there:
        return f"no shadow of {node!r} was ever compared here"
    return f"{node} was not compared by these versions: there are {there}"


def _pair_document(pair: Pair) -> dict[str, Any]:
    return dict(pair._asdict())
