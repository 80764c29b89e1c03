"""Calls a tool's own code and takes nothing it returns on trust."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Protocol

from triage.errors import ToolFailed, ToolFailure
from triage.evaluation.context import ToolContext
from triage.library.catalogue import Tool
from triage.model.query import Aggregate, Call, Query, Rows, Samples
from triage.model.verdict import Clause, Truth, Verdict

# Written out: `isinstance(x, A | B)` builds the union anew at every call, at 40 µs a decision.
QUERY_TYPES = (Samples, Aggregate, Rows, Call)
LIST_TYPES = (list, tuple)

MAX_QUERIES = 64
MAX_CLAUSES = 64
MAX_TEXT = 2_000  # characters of an explanation
MAX_NAME = 256  # characters of a subject, a clause's name, op or unit


class Marker(Protocol):
    """Told which tool's code is about to run, so that a blocked loop has a culprit."""

    def enter(self, tool: Tool) -> None: ...

    def leave(self) -> None: ...


class NoMark:
    """A marker for where nobody watches the loop: the command line, benchmarks."""

    __slots__ = ()

    def enter(self, tool: Tool) -> None:
        """Nothing to note."""

    def leave(self) -> None:
        """Nothing to note."""


def collect_queries(
    tool: Tool,
    allowed: Sequence[str],
    site: str,
    timestamp: datetime,
    context: ToolContext,
    marker: Marker,
) -> tuple[Query, ...]:
    """What the tool asks. Raises ToolFailed."""
    if tool.queries is None:
        return ()
    returned = _run(tool, marker, tool.queries, site, timestamp, context)
    if not isinstance(returned, LIST_TYPES):
        raise ToolFailed(
            ToolFailure.INVALID_QUERIES,
            f"queries() returned {type(returned).__name__}, not a list of queries",
        )
    if len(returned) > MAX_QUERIES:
        raise ToolFailed(
            ToolFailure.INVALID_QUERIES,
            f"queries() returned {len(returned)} queries, the limit is {MAX_QUERIES}",
        )
    for query in returned:
        check_query(query, allowed)
    return tuple(returned)


def check_query(query: Any, allowed: Sequence[str]) -> None:
    """Raises ToolFailed for what is no query, or asks a source that the node does not declare."""
    if not isinstance(query, QUERY_TYPES):
        raise ToolFailed(
            ToolFailure.INVALID_QUERIES, f"a {type(query).__name__} is not a query"
        )
    if query.source not in allowed:
        raise ToolFailed(
            ToolFailure.UNDECLARED_SOURCE,
            f"asks source {query.source!r}; the node declares {', '.join(allowed) or 'none'}",
        )
    try:
        hash(query)
    except TypeError as error:
        raise ToolFailed(
            ToolFailure.INVALID_QUERIES, f"a query holds a mutable value: {error}"
        ) from error


def judge(
    tool: Tool, site: str, timestamp: datetime, context: ToolContext, marker: Marker
) -> Verdict:
    """The tool's verdict. Raises ToolFailed."""
    return checked(_run(tool, marker, tool.evaluate, site, timestamp, context))


def checked(verdict: Any) -> Verdict:
    """`verdict` if it is one and within bounds. Raises ToolFailed."""
    problem = _problem(verdict)
    if problem:
        raise ToolFailed(ToolFailure.INVALID_RESULT, problem)
    assert isinstance(verdict, Verdict)
    return verdict


def raised(tool: Tool, error: BaseException) -> ToolFailed:
    """The tool's own exception as its failure, with the line of the tool's file."""
    file = tool.evaluate.__code__.co_filename
    line = next(
        (
            frame.lineno
            for frame in reversed(traceback.extract_tb(error.__traceback__))
            if frame.filename == file
        ),
        0,
    )
    text = str(error)[:MAX_NAME]
    return ToolFailed(ToolFailure.RAISED, f"{file}:{line}: {type(error).__name__}: {text}")


def _run(tool: Tool, marker: Marker, function: Callable[..., Any], *arguments: Any) -> Any:
    marker.enter(tool)
    try:
        return function(*arguments)
    except (Exception, SystemExit) as error:
        # SystemExit: a tool must not end the daemon, and the import policy is only a lint.
        raise raised(tool, error) from error
    finally:
        marker.leave()


def _problem(verdict: Any) -> str:
    """What is wrong with it, "" if nothing is. A tool's annotations bind nobody: every field is
    looked at as if it could be anything."""
    if not isinstance(verdict, Verdict):
        return f"evaluate() returned {type(verdict).__name__}, not a Verdict"
    value: Any = verdict.value
    if not isinstance(value, Truth):
        return f"the verdict's value is {type(value).__name__}, not a Truth"
    if not _is_text(verdict.explanation, MAX_TEXT):
        return f"the explanation must be text of at most {MAX_TEXT} characters"
    if not _is_text(verdict.subject, MAX_NAME):
        return f"the subject must be text of at most {MAX_NAME} characters"
    clauses: Any = verdict.clauses
    if not isinstance(clauses, tuple) or len(clauses) > MAX_CLAUSES:
        return f"clauses must be a tuple of at most {MAX_CLAUSES}"
    for clause in clauses:
        if problem := _clause_problem(clause):
            return problem
    return ""


def _clause_problem(clause: Any) -> str:
    if not isinstance(clause, Clause):
        return f"a clause is a {type(clause).__name__}"
    holds: Any = clause.holds
    if not (
        _is_observed(clause.observed)
        and _is_observed(clause.threshold)
        and (holds is None or isinstance(holds, bool))
    ):
        return f"clause {str(clause.name)[:MAX_NAME]!r} holds a value that is no number or text"
    for text in (clause.name, clause.op, clause.unit):
        if not _is_text(text, MAX_NAME):
            return f"a clause's name, op and unit must be text of at most {MAX_NAME} characters"
    return ""


def _is_text(value: Any, limit: int) -> bool:
    if not isinstance(value, str) or len(value) > limit:
        return False
    if value.isascii():
        return True
    try:
        value.encode()
    except UnicodeEncodeError:  # a lone surrogate: it has no bytes, so no record could hold it
        return False
    return True


def _is_observed(value: Any) -> bool:
    if isinstance(value, str):
        return _is_text(value, MAX_TEXT)
    if isinstance(value, int):
        return -(1 << 63) <= value < 1 << 63
    return value is None or isinstance(value, float)
