"""Active tools on their cases again: with the answers that were recorded, and with those of now.

A case is about a moment that is past, so the sources are asked as of its timestamp: what they say
to the same query may be gone by now, but it cannot have become something else. Where it has, the
source changed, and the finding says which field.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from triage.errors import SourceFailure, ToolFailure
from triage.model.case import LabelledCase
from triage.model.query import query_digest
from triage.ports import WatchKind
from triage.sop.procedure import SiteProfile
from triage.trial.answers import CaseAnswers, setting_of
from triage.trial.model import Answers, Candidate, Told, Trials, Tried
from triage.watching.drift_slot import change_of
from triage.watching.features import FieldSeen, SlotSeen, query_shape, slot_seen

RECORDED = "recorded"
LIVE = "live"

PASSED = "passed"
FAILED = "failed"
UNRECORDED = "unrecorded"
"""It could not be told: the case does not hold all answers, or the source no longer has them."""

LEAST_SHIFT = 0.02
"""Of log10 of the middle: the twentieth part. Late samples and corrections move it by less."""
LEAST_NULLS = 0.2
"""By which the share of nulls must have grown."""

_DOWN = frozenset(
    failure.value for failure in SourceFailure if failure is not SourceFailure.UNRECORDED
)


class Seen(NamedTuple):
    """What a re-test found: as an `Alarm`, without the node."""

    kind: WatchKind
    subject: str
    detail: str
    evidence: Mapping[str, Any]


class Retested(NamedTuple):
    """One case. `expected` and `got` are words; `got` is `failed` with the reason in `detail`."""

    case_id: str
    mode: str
    result: str
    expected: str
    got: str
    detail: str
    found: tuple[Seen, ...] = ()


async def retest_case(
    candidate: Candidate,
    case: LabelledCase,
    profile: SiteProfile,
    trials: Trials,
    live: Answers | None = None,
) -> list[Retested]:
    """With the recorded answers where the case has any, and with those of `live` where it is given.
    `profile` is of the case's site. May be cancelled."""
    setting = setting_of(case, profile)
    ended = []
    if case.answers:
        [tried] = await trials.run(candidate, [(setting, CaseAnswers(case))])
        ended.append(_judged(case, tried, RECORDED))
    if live is not None:
        [tried] = await trials.run(candidate, [(setting, live)])
        one = _judged(case, tried, LIVE)
        # Off the event loop: answers of a case may be megabytes.
        gone, found = await asyncio.to_thread(_compared, case, tried.asked)
        if gone:
            detail = "the source no longer has what was recorded then"
            one = one._replace(result=UNRECORDED, detail=detail, found=())
        ended.append(one._replace(found=(*one.found, *found)))
    return ended


def _judged(case: LabelledCase, tried: Tried, mode: str) -> Retested:
    subject = tried.subject or case.entity
    right = tried.value == case.expected and case.subject in (None, subject)
    got = tried.value if case.subject is None or not tried.ok else f"{tried.value} on {subject}"
    expected = case.expected if case.subject is None else f"{case.expected} on {case.subject}"
    detail = f"{tried.failure}: {tried.detail}" if tried.failure else tried.explanation
    one = Retested(case.case_id, mode, PASSED if right else FAILED, expected, got, detail)
    if tried.failure == SourceFailure.UNRECORDED.value:
        return one._replace(result=UNRECORDED)
    if right:
        return one
    if tried.failure in _DOWN:
        down = [told for told in tried.asked if told.failure in _DOWN]
        return one._replace(found=tuple(_dead(down, case)))
    seen = Seen(
        WatchKind.RETEST_FAILED,
        case.case_id,
        f"case {case.case_id} with {mode} answers: expected {expected}, got {got}: {detail}",
        {"case": case.case_id, "mode": mode, "expected": expected, "got": got, "detail": detail},
    )
    return one._replace(found=(seen,))


def _dead(down: Sequence[Told], case: LabelledCase) -> Iterator[Seen]:
    for source in dict.fromkeys(told.query.source for told in down):
        why = next(f"{t.failure}: {t.detail}" for t in down if t.query.source == source)
        yield Seen(
            WatchKind.SOURCE_DEAD,
            source,
            f"{source} did not answer a re-test of case {case.case_id}: {why}",
            {"source": source, "case": case.case_id},
        )


# --- the answers of then and of now -----------------------------------------------------------


def _compared(case: LabelledCase, asked: Sequence[Told]) -> tuple[bool, list[Seen]]:
    """Whether the source has forgotten the case's time (it answers with nothing where it had
    something), and what is otherwise."""
    recorded = {answer.digest: answer for answer in case.answers}
    gone, found = False, []
    for told in asked:
        before = recorded.get(query_digest(told.query))
        if before is None or not before.body:
            continue
        slot = query_shape(told.query)
        if told.failure == ToolFailure.QUERY_REJECTED.value:
            detail = f"the source refuses this query, which it took before: {told.detail}"
            evidence = {"case": case.case_id, "detail": told.detail, "site": case.warehouse}
            found.append(Seen(WatchKind.SCHEMA_CHANGED, slot, detail, evidence))
        elif told.body:
            then = slot_seen(slot, told.query, before.body)
            now = slot_seen(slot, told.query, told.body)
            gone = gone or (then.size > 0 and now.size == 0)
            found += differences(then, now, case)
    return gone, found


def differences(then: SlotSeen, now: SlotSeen, case: LabelledCase) -> Iterator[Seen]:
    """Of two answers to the same query: fields, types, scale and nulls."""
    if not then.size or not now.size or then.wide or now.wide:
        return
    before = {field.name: field for field in then.fields}
    after = {field.name: field for field in now.fields}
    for name in sorted(before.keys() | after.keys()):
        subject = f"{then.slot}: {name}"
        evidence = {"case": case.case_id, "field": name, "site": case.warehouse}
        what = _schema_change(before.get(name), after.get(name), then, now)
        if what:
            yield Seen(
                WatchKind.SCHEMA_CHANGED,
                subject,
                f"{name} {what}, as of case {case.case_id} at {case.warehouse}",
                evidence,
            )
        elif name in before and name in after:
            yield from _value_changes(before[name], after[name], subject, evidence, case)


def _schema_change(
    then: FieldSeen | None, now: FieldSeen | None, before: SlotSeen, after: SlotSeen
) -> str:
    """In words, empty for none. A field that is missing with what held it is not missing itself."""
    if now is None:
        return "is no longer there" if then is not None and then.inside in after.holders else ""
    if then is None:
        return "is there, as it was not" if now.inside in before.holders else ""
    if then.types and now.types and set(then.types) != set(now.types):
        return f"was {' or '.join(then.types)} and is {' or '.join(now.types)}"
    return ""


def _value_changes(
    then: FieldSeen,
    now: FieldSeen,
    subject: str,
    evidence: Mapping[str, Any],
    case: LabelledCase,
) -> Iterator[Seen]:
    where = f"as of case {case.case_id} at {case.warehouse}"
    if (
        then.median is not None
        and now.median is not None
        and abs(now.median - then.median) >= LEAST_SHIFT
    ):
        said = change_of("level", then.median, now.median)
        yield Seen(
            WatchKind.VALUES_MOVED,
            subject,
            f"the middle of the values of {then.name}: {said}, {where}",
            evidence,
        )
    nulls_then, nulls_now = then.nulls / max(1, then.values), now.nulls / max(1, now.values)
    if nulls_now - nulls_then >= LEAST_NULLS:
        said = change_of("nulls", nulls_then, nulls_now)
        yield Seen(
            WatchKind.NULLS,
            subject,
            f"the share of nulls of {then.name}: {said}, {where}",
            evidence,
        )
