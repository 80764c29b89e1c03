"""What a verdict may hold, whoever gave it: a tool, or an agent that stands in for one.

Types are compared exactly: a subclass of str, tuple or Verdict, made by code that nobody vouches
for, may do anything when it is compared, hashed or read. It is also the faster look-up.
"""

from __future__ import annotations

from typing import Any

from triage.model.verdict import Clause, Truth, Verdict

MAX_CLAUSES = 64
MAX_TEXT = 2_000  # characters of an explanation
MAX_NAME = 256  # characters of a subject, a clause's name, op or unit


def verdict_problem(verdict: Verdict) -> str:  # noqa: PLR0911 - one refusal a return
    """What is wrong with it, "" if nothing is. Annotations bind nobody: every field is looked at
    as if it could be anything."""
    try:
        value: Any = verdict.value
        clauses: Any = verdict.clauses
        explanation, subject = verdict.explanation, verdict.subject
    except IndexError as error:  # made past its constructor
        return f"a verdict with a field missing: {error}"
    if type(value) is not Truth:
        return f"the verdict's value is {type(value).__name__}, not a Truth"
    if not is_text(explanation, MAX_TEXT):
        return f"the explanation must be text of at most {MAX_TEXT} characters"
    if not is_text(subject, MAX_NAME) or "\0" in subject:
        return f"the subject must be text of at most {MAX_NAME} characters, none of them NUL"
    if type(clauses) is not tuple or len(clauses) > MAX_CLAUSES:
        return f"clauses must be a tuple of at most {MAX_CLAUSES}"
    for clause in clauses:
        if problem := _clause_problem(clause):
            return problem
    return ""


def _clause_problem(clause: Any) -> str:
    if type(clause) is not Clause:
        return f"a clause is a {type(clause).__name__}"
    try:
        holds: Any = clause.holds
        texts = (clause.name, clause.op, clause.unit)
        storable = is_storable(clause.observed, MAX_TEXT) and is_storable(
            clause.threshold, MAX_TEXT
        )
    except IndexError as error:  # made past its constructor
        return f"a clause with a field missing: {error}"
    for text in texts:
        if not is_text(text, MAX_NAME):
            return f"a clause's name, op and unit must be text of at most {MAX_NAME} characters"
    if not storable or not (holds is None or type(holds) is bool):
        return f"clause {clause.name!r} holds a value that is no number or text"
    return ""


def is_text(value: Any, limit: int) -> bool:
    """Text of at most `limit` characters that has bytes."""
    if type(value) is not str or len(value) > limit:
        return False
    if value.isascii():
        return True
    try:
        value.encode()
    except UnicodeEncodeError:  # a lone surrogate: it has no bytes, so no record could hold it
        return False
    return True


def is_storable(value: Any, text_limit: int) -> bool:
    """Text, a number of 64 bits, a truth value or None: what a record can hold."""
    kind = type(value)
    if kind is float or kind is bool or value is None:
        return True
    if kind is int:
        return bool(-(1 << 63) <= value < 1 << 63)
    return kind is str and is_text(value, text_limit)
