"""How good a candidate is on a part of the cases."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from triage.errors import SourceFailed, SourceFailure
from triage.maker.model import Mismatch, Score, SeenAnswer
from triage.maker.shown import WRONG_SUBJECT
from triage.model.case import LabelledCase, same_subject
from triage.tool_api import quantile
from triage.trial.model import FAILED, Answers, Candidate, Setting, Told, Trials, Tried

SHOWN = 8
"""Mismatches that a model is shown at most: more of one kind teach it nothing new."""

DOWN = frozenset({SourceFailure.CONNECT.value, SourceFailure.BREAKER_OPEN.value})
"""Failures that no candidate can be at fault for."""

Settings = Callable[[LabelledCase], tuple[Setting, Answers]]
"""What a tool may see in a case, and where its answers come from."""

Seen = Callable[[Told, LabelledCase], SeenAnswer]
"""An answer as a model may see it."""


async def score(
    candidate: Candidate,
    cases: Sequence[LabelledCase],
    trials: Trials,
    settings: Settings,
    *,
    seen: Seen | None = None,
) -> Score:
    """Tries the candidate on each case once.

    `mismatches` are in the order they are to be shown in: the first SHOWN as `choose_mismatches`
    picks them, with what `seen` says of their answers, then the others without. Raises
    SandboxFailed. May be cancelled.
    """
    given = [settings(case) for case in cases]
    tries = await trials.run(candidate, given)
    confusion: Counter[tuple[str, str]] = Counter()
    wrong: list[Mismatch] = []
    for case, (setting, _), tried in zip(cases, given, tries, strict=True):
        word = got(case, tried)
        confusion[case.expected, word] += 1
        if word != case.expected:
            wrong.append(Mismatch(case, tried, setting.site.units, ()))
    times = [tried.elapsed_ms for tried in tries]
    return Score(
        passed=len(cases) - len(wrong),
        total=len(cases),
        confusion=dict(confusion),
        p50_ms=quantile(times, 0.5) if times else 0.0,
        p95_ms=quantile(times, 0.95) if times else 0.0,
        max_queries=max((len(tried.asked) for tried in tries), default=0),
        mismatches=_in_order(wrong, seen),
    )


def got(case: LabelledCase, tried: Tried) -> str:
    """What a try counts as in a confusion matrix."""
    if not tried.ok:
        return FAILED
    if tried.value != case.expected or same_subject(case, tried.subject):
        return tried.value
    return f"{tried.value}{WRONG_SUBJECT}"


def choose_mismatches(mismatches: Sequence[Mismatch], most: int = SHOWN) -> list[Mismatch]:
    """At most `most`, spread over the cells of the confusion matrix: one of each cell by turns,
    the cell with the most first, and in a cell those with the smallest answers first. Their trials
    must hold what was asked. The same mismatches give the same choice, however they are ordered."""
    cells: dict[tuple[str, str], list[Mismatch]] = {}
    for mismatch in mismatches:
        cell = (mismatch.case.expected, got(mismatch.case, mismatch.tried))
        cells.setdefault(cell, []).append(mismatch)
    for held in cells.values():
        held.sort(key=_size)
    queues = [cells[cell] for cell in sorted(cells, key=lambda cell: (-len(cells[cell]), cell))]
    chosen: list[Mismatch] = []
    turn = 0
    while len(chosen) < most and any(turn < len(queue) for queue in queues):
        chosen += [queue[turn] for queue in queues if turn < len(queue)]
        turn += 1
    return chosen[:most]


def failures(score: Score) -> int:
    """Cases without any verdict."""
    return sum(count for (_, word), count in score.confusion.items() if word == FAILED)


def outage(score: Score) -> SourceFailed | None:
    """Why most cases failed, when that is a source and no candidate could be at fault for it."""
    down = [one.tried for one in score.mismatches if one.tried.failure in DOWN]
    if len(down) * 2 <= score.total:
        return None
    return SourceFailed(SourceFailure(down[0].failure), down[0].detail)


def _in_order(wrong: Sequence[Mismatch], seen: Seen | None) -> tuple[Mismatch, ...]:
    """The bodies of answers are let go of: those of all cases and rounds would fill the memory."""
    chosen = choose_mismatches(wrong)
    first = {id(one) for one in chosen}
    return (
        *(_without_bodies(one, _told(one, seen)) for one in chosen),
        *(_without_bodies(one, ()) for one in wrong if id(one) not in first),
    )


def _told(mismatch: Mismatch, seen: Seen | None) -> tuple[SeenAnswer, ...]:
    if seen is None:
        return ()
    return tuple(seen(told, mismatch.case) for told in mismatch.tried.asked)


def _without_bodies(mismatch: Mismatch, answers: tuple[SeenAnswer, ...]) -> Mismatch:
    return mismatch._replace(tried=mismatch.tried._replace(asked=()), answers=answers)


def _size(mismatch: Mismatch) -> tuple[int, str]:
    return sum(len(told.body) for told in mismatch.tried.asked), mismatch.case.case_id
