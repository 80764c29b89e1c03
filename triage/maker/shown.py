"""Traces and failing cases as a model reads them: data from outside, masked and fenced."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC
from typing import Any, NamedTuple

from triage.fallback.masking import Mask
from triage.fallback.template import fenced
from triage.maker.model import CaseTrace, Mismatch, Score, SeenAnswer, SeenField
from triage.maker.seen_fields import MORE
from triage.maker.seen_text import described
from triage.model.verdict import WORDS, Clause, Verdict
from triage.trial.model import FAILED

MAX_LINE = 2_000  # characters of one line that is no query
WRONG_SUBJECT = "!"
"""Put to a word that was right of the wrong asset, in a confusion matrix."""


class Detail(NamedTuple):
    """How much of the data is shown: so many traces, failing cases and fields of an answer; with
    `every_turn` all the code of a trace, else only its last."""

    traces: int
    cases: int
    fields: int
    every_turn: bool


def trace_text(index: int, trace: CaseTrace, detail: Detail, mask: Mask) -> str:
    """One `## Trace`: facts, the code that ran, and what the sources said."""
    facts = [
        f"site: {_line(trace.site)}",
        f"units: {_json(trace.units)}",
        f"entity: {_line(trace.entity)}",
        f"timestamp: {_line(trace.timestamp)}",
        f"expected: {_line(trace.expected) or 'unknown'}",
        f"verdict: {_line(trace.verdict)}{_right(trace.right)}",
    ]
    codes = [turn.code for turn in trace.turns if turn.code.strip()]
    parts = [f"## Trace {index}", fenced(mask.clean("\n".join(facts)))]
    for code in codes if detail.every_turn else codes[-1:]:
        parts += ["Code that ran:", fenced(mask.clean(code.strip("\n")))]
    if trace.answers:
        lines = "\n".join(_answers(trace.answers, detail.fields))
        parts += ["What the sources said:", fenced(mask.clean(lines))]
    return "\n".join(parts)


def case_text(mismatch: Mismatch, detail: Detail, mask: Mask) -> str:
    """One `## Case`: what was asked, expected and predicted, and what the candidate saw."""
    lines = "\n".join(_case(mismatch, detail.fields))
    return f"## Case {_line(mismatch.case.case_id)}\n{fenced(mask.clean(lines))}"


def confusion_text(score: Score) -> str:
    """A table with a row an expected verdict and a column a predicted one. Words are ours, but for
    an expectation of a case file: one line each."""
    words = sorted({expected for expected, _ in score.confusion}, key=_order)
    got = [
        *sorted({_plain(word) for _, word in score.confusion} - {FAILED}, key=_order),
        *([FAILED] if any(word == FAILED for _, word in score.confusion) else []),
    ]
    subjects = any(word.endswith(WRONG_SUBJECT) for _, word in score.confusion)
    rows = [["expected", *got, *(["wrong subject"] if subjects else [])]]
    for word in words:
        counts = [score.confusion.get((word, column), 0) for column in got]
        if subjects:
            counts.append(score.confusion.get((word, f"{word}{WRONG_SUBJECT}"), 0))
        rows.append([word, *map(str, counts)])
    return "\n".join(_row(row) for row in rows)


def number(value: float) -> str:
    """Enough digits to tell it from a threshold beside it."""
    return f"{value:.12g}"


def _case(mismatch: Mismatch, fields: int) -> Iterator[str]:
    case, tried = mismatch.case, mismatch.tried
    yield f"site: {_line(case.warehouse)}"
    yield f"units: {_json(mismatch.units)}"
    yield f"entity: {_line(case.entity)}"
    yield f"timestamp: {case.timestamp.astimezone(UTC).isoformat()}"
    if case.labels:
        yield f"labels: {_json(case.labels)}"
    yield f"params: {_json(case.params)}"
    yield f"parents: {_json({name: _said(verdict) for name, verdict in case.parents.items()})}"
    yield f"expected: {_line(case.expected)}"
    if case.subject is not None:
        yield f"expected subject: {_line(case.subject or case.entity)}"
    if tried.ok:
        yield f"predicted: {tried.value}"
        yield f"predicted subject: {_line(tried.subject or case.entity)}"
        yield f"explanation: {_line(tried.explanation)}"
        yield "clauses:"
        yield from map(_clause, tried.clauses)
    else:
        yield f"predicted: failed: {_line(tried.failure)}: {_line(tried.detail)}"
    yield "answers:"
    yield from _answers(mismatch.answers, fields)


def _clause(clause: Clause) -> str:
    unit = f" {clause.unit}" if clause.unit else ""
    holds = json.dumps(clause.holds)
    said = f"{_observed(clause.observed)} {clause.op} {_observed(clause.threshold)}{unit}"
    return f"- {_line(clause.name)}: {_line(said)} -> {holds}"


def _answers(answers: Sequence[SeenAnswer], fields: int) -> Iterator[str]:
    for seen in answers:
        if len(seen.fields) > fields:
            more = SeenField(f"{MORE} {len(seen.fields) - fields} more fields", (), 0)
            seen = seen._replace(fields=(*seen.fields[:fields], more))  # noqa: PLW2901 - a part of it
        yield described(seen)


def _row(cells: Sequence[str]) -> str:
    return " | ".join(cells)


def _right(right: bool | None) -> str:
    return "" if right is None else " (right)" if right else " (wrong)"


def _said(verdict: Verdict) -> dict[str, str]:
    return {"value": verdict.value.word, "subject": verdict.subject}


def _observed(value: Any) -> str:
    return number(value) if type(value) is float else json.dumps(value, ensure_ascii=False)


def _plain(word: str) -> str:
    return word.removesuffix(WRONG_SUBJECT)


def _order(word: str) -> tuple[int, str]:
    return (WORDS.index(word) if word in WORDS else len(WORDS), word)


def _json(value: Mapping[str, Any]) -> str:
    text = json.dumps(dict(value), ensure_ascii=False, sort_keys=True, default=str)
    return text if len(text) <= MAX_LINE else f"{text[: MAX_LINE - 1]}…"


def _line(text: str) -> str:
    """What a case, a source or a model said, on one line."""
    line = " ".join(text.split())
    return line if len(line) <= MAX_LINE else f"{line[: MAX_LINE - 1]}…"
