"""The figures of `bench drift`, in the words of what is asked of it.

Counted are *pairs*: one change injected, and one node that asks what it changes. Each is to be
named within one re-test or 30 evaluations of the node.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import median
from typing import Any

from bench.drift.measuring import TUNED_ON, Run
from bench.drift.named import OF_KIND, WITHIN, Named

MOST_FALSE = 1
"""False alarms in 10,000 evaluations."""

COLUMNS: Mapping[str, str] = {
    "changes": "injected",
    "pairs": "pairs",
    "named_within_30_evaluations": f"named within {WITHIN} evaluations",
    "named_within_one_retest": "named within one re-test",
    "named_by_either": "named by either",
    "not_named": "not named",
}


def figures(run: Run) -> dict[str, Any]:
    """What `--json` writes. `evaluations` of a node are those that asked what was changed, at
    whichever site; `at_the_site` counts only those at a site where it was. A pair is `untold`, and
    named in `not_named` too, when there was neither a case to re-test nor 30 evaluations."""
    evaluations = sum(one.evaluations for one in run.quiet)
    false = sum(len(one.findings) for one in run.quiet)
    return {
        "criterion": f"named within one re-test or {WITHIN} evaluations of the node; at most"
        f" {MOST_FALSE} false alarm per 10,000 evaluations",
        "injected": {kind: _of_kind(run.named, kind) for kind in OF_KIND},
        "not_named": [_miss(one) for one in run.named if not one.in_time],
        "not_named_within_30_evaluations": [_miss(one) for one in run.named if not one.within_30],
        "not_named_within_one_retest": [
            _miss(one) for one in run.named if one.retested is not True
        ],
        "seeds": [one.seed for one in run.quiet],
        "seeds_injected": sorted({one.seed for one in run.named}),
        "tuned_on": list(TUNED_ON),
        "evaluations": evaluations,
        "evaluations_per_seed": [one.evaluations for one in run.quiet],
        "false_alarms": false,
        "false_alarms_per_seed": [len(one.findings) for one in run.quiet],
        "false_alarms_per_10000_evaluations": (
            10_000 * false / evaluations if evaluations else None
        ),
        "false_alarm_findings": [
            f"{one.seed} {finding.node} {finding.kind.value} {finding.subject}: {finding.detail}"
            for one in run.quiet
            for finding in one.findings
        ],
        "seconds": run.seconds,
    }


def _of_kind(named: Sequence[Named], kind: str) -> dict[str, Any]:
    some = [one for one in named if one.kind == kind]
    after = [one.after for one in some if one.after is not None]
    at_site = [one.at_site for one in some if one.at_site is not None]
    changes = {(one.seed, one.injection) for one in some}
    short = {(one.seed, one.injection) for one in some if not one.in_time}
    return {
        "changes": len(changes),
        "changes_named_at_every_node": len(changes - short),
        "pairs": len(some),
        "named_within_30_evaluations": sum(one.within_30 for one in some),
        "named_within_one_retest": sum(one.retested is True for one in some),
        "named_by_either": sum(one.in_time for one in some),
        "not_named": sum(not one.in_time for one in some),
        "untold": sum(one.untold for one in some),
        "pairs_without_30_evaluations": sum(
            one.seen < WITHIN and not one.within_30 for one in some
        ),
        "pairs_without_a_case": sum(one.retested is None for one in some),
        "evaluations_median": median(after) if after else None,
        "evaluations_max": max(after, default=None),
        "at_the_site_median": median(at_site) if at_site else None,
        "at_the_site_max": max(at_site, default=None),
    }


def _miss(one: Named) -> dict[str, Any]:
    return {"seed": one.seed, "change": one.injection, "node": one.node, "why": one.why}


def is_right(figures: Mapping[str, Any]) -> bool:
    """Whether the criterion holds of what could be told."""
    rate = figures["false_alarms_per_10000_evaluations"]
    missed = sum(kind["not_named"] - kind["untold"] for kind in figures["injected"].values())
    return (rate is None or rate <= MOST_FALSE) and not missed


def in_words(figures: Mapping[str, Any]) -> Iterator[str]:
    """Every pair that was not named, and every false alarm: one line each."""
    for miss in figures["not_named"]:
        yield f"not named: seed {miss['seed']} {miss['change']}: {miss['node']}: {miss['why']}"
    for finding in figures["false_alarm_findings"]:
        yield f"false alarm: seed {finding}"
    if figures["evaluations"]:
        yield (
            f"{figures['false_alarms_per_10000_evaluations']:.2f} false alarms per 10,000"
            f" evaluations: {figures['false_alarms']} in {figures['evaluations']:,} over"
            f" {len(figures['seeds'])} seeds"
        )
