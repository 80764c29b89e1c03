"""What two decisions of one alert disagree on."""

from __future__ import annotations

from collections.abc import Iterator
from math import isnan

from triage.model.decision import Decision, NodeResult
from triage.model.verdict import Observed


def differences(with_tools: Decision, without: Decision) -> list[str]:
    """One line each, empty when there is none: verdicts with their subjects and clauses, the
    nodes that were walked, outcome, root causes and actions."""
    return list(_differences(with_tools, without))


def same_answer(one: NodeResult, other: NodeResult) -> bool:
    """Whether both say the same, of the same subject, for the same reasons."""
    return _answer(one) == _answer(other)


def _differences(with_tools: Decision, without: Decision) -> Iterator[str]:
    ours = {result.node: result for result in without.nodes}
    theirs = {result.node: result for result in with_tools.nodes}
    for node in sorted(ours.keys() | theirs.keys()):
        mine, right = ours.get(node), theirs.get(node)
        if mine is None or right is None or not same_answer(mine, right):
            yield f"{node}: {_shown(right)} with its tool, {_shown(mine)} without"
    for what, first, second in (
        ("outcome", with_tools.outcome.value, without.outcome.value),
        (
            "root causes",
            sorted(f"{cause.node}:{cause.subject}" for cause in with_tools.root_causes),
            sorted(f"{cause.node}:{cause.subject}" for cause in without.root_causes),
        ),
        (
            "actions",
            sorted(f"{action.action}:{action.subject}" for action in with_tools.actions),
            sorted(f"{action.action}:{action.subject}" for action in without.actions),
        ),
    ):
        if first != second:
            yield f"{what}: {first} with tools, {second} without"


def _answer(result: NodeResult) -> object:
    verdict = result.verdict
    if verdict is None:
        return result.word
    clauses = [one._replace(observed=_equal_to_itself(one.observed)) for one in verdict.clauses]
    return (result.word, verdict.subject, clauses, verdict.explanation)


def _equal_to_itself(observed: Observed) -> Observed:
    return "NaN" if isinstance(observed, float) and isnan(observed) else observed


def _shown(result: NodeResult | None) -> str:
    if result is None:
        return "not reached"
    if result.failure is not None:
        return f"failed ({result.failure.reason}: {result.failure.detail})"
    verdict = result.verdict
    assert verdict is not None
    clauses = ", ".join(
        f"{one.name} {one.observed!r} {one.op} {one.threshold!r}" for one in verdict.clauses
    )
    return f"{result.word} of {verdict.subject or '-'} ({clauses or verdict.explanation})"
