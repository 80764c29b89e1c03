"""When the text of a node is to blame: candidates keep disagreeing with the same labels.

One candidate that is wrong says nothing of the text. Where rewrites of it go on saying something
else than the labels of the same cases, either the labels are wrong or a sentence can be read in
two ways: a person has to look, and is told the sentence and the cases.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from triage.fallback.words import stems
from triage.maker.model import Mismatch, Round
from triage.maker.reply import sentences
from triage.model.canonical import canonical_json, sha256_hex
from triage.model.case import cases_said
from triage.model.decision import NodeId
from triage.ports import WatchFinding, WatchKind

LEAST_ROUNDS = 2
"""Rounds that must disagree, each with a candidate of its own."""
LEAST_QUOTES = 2
"""Diagnoses that must quote a sentence: a single one may be a model's excuse."""
LEAST_CASES = 2
"""For a sentence that no diagnosis quotes: one stubborn case is more likely a wrong label."""
LEAST_SHARED = 2  # words of a sentence and of the clauses that it is attributed by
MOST_CASES = 50  # listed; the detail counts all


def ambiguities(
    node: NodeId, text: str, rounds: Sequence[Round], *, tool_sha256: str, at: datetime
) -> list[WatchFinding]:
    """At most one a sentence of `text`, which is the node's. `at` is aware UTC. `tool_sha256` is of
    the best candidate, empty without one."""
    tried = [one for one in rounds if one.score is not None]
    wrong = [_disagreements(one) for one in tried]
    quoted = Counter(one.blamed for one in rounds if one.blamed)
    named = [sentence for sentence, count in quoted.items() if count >= LEAST_QUOTES]
    stubborn = _stubborn(wrong, LEAST_ROUNDS)
    if named and stubborn:
        return [
            _finding(node, sentence, stubborn, wrong, tool_sha256, at, quoted=quoted[sentence])
            for sentence in named
        ]
    # Without a quote: only what no candidate has ever got right.
    stubborn = _stubborn(wrong, max(LEAST_ROUNDS, len(tried)))
    sentence = _attributed(text, [found[case] for case in stubborn for found in wrong])
    if len(stubborn) < LEAST_CASES or not sentence:
        return []
    return [_finding(node, sentence, stubborn, wrong, tool_sha256, at, quoted=0)]


def _disagreements(one: Round) -> dict[str, Mismatch]:
    """By case: those with a verdict, which is another than the label. A failure is no opinion."""
    assert one.score is not None
    return {
        mismatch.case.case_id: mismatch for mismatch in one.score.mismatches if mismatch.tried.ok
    }


def _stubborn(wrong: Sequence[dict[str, Mismatch]], least: int) -> list[str]:
    """Cases that so many rounds disagree with, in the order of their times."""
    counts = Counter(case for found in wrong for case in found)
    latest = {case: mismatch for found in wrong for case, mismatch in found.items()}
    return sorted(
        (case for case, count in counts.items() if count >= least),
        key=lambda case: (latest[case].case.timestamp, case),
    )


def _attributed(text: str, mismatches: Sequence[Mismatch]) -> str:
    """The sentence that shares most words with the clauses that led to the wrong verdicts; "" when
    none shares enough, or two share as many."""
    words: set[str] = set()
    for mismatch in mismatches:
        for clause in mismatch.tried.clauses:
            words |= stems(f"{clause.name} {clause.unit}".replace("_", " "))
    shared = [(len(words & stems(sentence)), sentence) for sentence in sentences(text)]
    shared.sort(key=lambda pair: -pair[0])
    if not shared or shared[0][0] < LEAST_SHARED:
        return ""
    if len(shared) > 1 and shared[1][0] == shared[0][0]:
        return ""
    return shared[0][1]


def _finding(
    node: NodeId,
    sentence: str,
    cases: Sequence[str],
    wrong: Sequence[dict[str, Mismatch]],
    tool_sha256: str,
    at: datetime,
    *,
    quoted: int,
) -> WatchFinding:
    latest = {case: mismatch for found in wrong for case, mismatch in found.items()}
    shown = [latest[case] for case in cases[:MOST_CASES]]
    swapped = Counter((latest[case].case.expected, latest[case].tried.value) for case in cases)
    said = ", ".join(_times(expected, got, count) for (expected, got), count in _most(swapped))
    why = f"{quoted} diagnoses quote it" if quoted else "by the words of the clauses"
    return WatchFinding(
        finding_id=sha256_hex(
            canonical_json([WatchKind.AMBIGUOUS_TEXT.value, node, sentence, tool_sha256])
        ),
        kind=WatchKind.AMBIGUOUS_TEXT,
        node=node,
        subject=sentence,
        tool_sha256=tool_sha256,
        detail=(
            f"candidates of {len(wrong)} rounds disagree with the labels of"
            f" {cases_said(len(cases))} ({said}); {why}"
        ),
        first_at=at,
        last_at=at,
        evidence={
            "cases": [one.case.case_id for one in shown],
            "expected": [one.case.expected for one in shown],
            "predicted": [one.tried.value for one in shown],
        },
    )


def _most(counts: Counter[tuple[str, str]]) -> Iterator[tuple[tuple[str, str], int]]:
    yield from sorted(counts.items(), key=lambda item: (-item[1], item[0]))


def _times(expected: str, got: str, count: int) -> str:
    if expected == got:
        return f"{count} × another subject"  # noqa: RUF001 - a multiplication sign
    return f"{count} × {got} for {expected}"  # noqa: RUF001 - likewise


def ambiguity_document(finding: WatchFinding) -> dict[str, Any]:
    """As JSON types."""
    return {
        "finding_id": finding.finding_id,
        "kind": finding.kind.value,
        "node": finding.node,
        "subject": finding.subject,
        "tool_sha256": finding.tool_sha256,
        "detail": finding.detail,
        "at": finding.last_at.isoformat(),
        "evidence": dict(finding.evidence),
    }


def ambiguity_of(document: dict[str, Any]) -> WatchFinding:
    """The inverse of `ambiguity_document`. Raises KeyError, TypeError or ValueError for anything
    else."""
    at = datetime.fromisoformat(document["at"])
    return WatchFinding(
        finding_id=str(document["finding_id"]),
        kind=WatchKind(document["kind"]),
        node=NodeId(str(document["node"])),
        subject=str(document["subject"]),
        tool_sha256=str(document["tool_sha256"]),
        detail=str(document["detail"]),
        first_at=at,
        last_at=at,
        evidence=dict(document["evidence"]),
    )
