"""Calls a tool's own code and takes nothing it returns on trust."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timezone
from math import isfinite
from typing import Any, Protocol
from zoneinfo import ZoneInfo

import orjson

from triage.errors import ToolFailed, ToolFailure
from triage.evaluation.context import ToolContext
from triage.library.catalogue import Tool
from triage.model.query import Aggregate, Call, Query, Rows, Samples
from triage.model.verdict import Verdict
from triage.model.verdict_bounds import MAX_NAME, is_storable, is_text, verdict_problem

# Types are compared exactly, here and below: a tool's subclass of str, tuple or Verdict may do
# anything when it is compared, hashed or read. It is also the faster look-up.
QUERY_TYPES = frozenset({Samples, Aggregate, Rows, Call})
QUERY_SHAPES = frozenset(
    {
        (Samples, str, str, datetime, datetime),
        (Aggregate, str, str, datetime, datetime, str, float),
        (Aggregate, str, str, datetime, datetime, str, int),
        (Rows, str, str, tuple),
        (Call, str, str, str),
    }
)
SAMPLES_FIELDS = len(Samples._fields)
LIST_TYPES = frozenset({list, tuple})
ZONE_TYPES = frozenset({timezone, ZoneInfo})
FUNCTIONS = frozenset({"count", "min", "max", "sum", "quantile"})

MAX_QUERIES = 64
MAX_QUERY_TEXT = 65_536  # characters of a selector, an SQL text, an argument
MAX_PARAMS = 256


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
    if type(returned) not in LIST_TYPES:
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


def check_count(asked: int) -> None:
    """`asked` are the queries of a dynamic tool, with the one it asks now. Raises ToolFailed."""
    if asked > MAX_QUERIES:
        raise ToolFailed(ToolFailure.INVALID_QUERIES, f"asked more than {MAX_QUERIES} queries")


def check_query(query: Any, allowed: Sequence[str]) -> None:
    """Raises ToolFailed for what is no query, or asks a source that the node does not declare.

    What passes can be hashed, compared, asked, and written into the decision: a query that could
    not be would end the attempt instead of the node.
    """
    kind = type(query)
    if kind is Samples and len(query) == SAMPLES_FIELDS:
        # What nearly every query is, in a fifth of the time.
        source, selector, start, end = query
        if (
            type(source) is str
            and type(selector) is str
            and type(start) is datetime
            and type(end) is datetime
            and start.tzinfo is UTC
            and end.tzinfo is UTC
            and selector.isascii()
            and len(selector) <= MAX_QUERY_TEXT
            and source in allowed
        ):
            return
    if kind not in QUERY_TYPES:
        raise ToolFailed(ToolFailure.INVALID_QUERIES, f"a {kind.__name__} is not a query")
    if (kind, *map(type, query)) not in QUERY_SHAPES:
        found = ", ".join(type(value).__name__ for value in query)
        raise ToolFailed(
            ToolFailure.INVALID_QUERIES, f"a {kind.__name__} query was made of {found}"
        )
    if query.source not in allowed:
        raise ToolFailed(
            ToolFailure.UNDECLARED_SOURCE,
            f"asks source {query.source[:MAX_NAME]!r};"
            f" the node declares {', '.join(allowed) or 'none'}",
        )
    if kind is Samples or kind is Aggregate:
        problem = _metric_problem(query)
    else:
        problem = _rows_problem(query) if kind is Rows else _call_problem(query)
    if problem:
        raise ToolFailed(ToolFailure.INVALID_QUERIES, problem)


def _metric_problem(query: Samples | Aggregate) -> str:
    if not is_text(query.selector, MAX_QUERY_TEXT):
        return f"a selector must be text of at most {MAX_QUERY_TEXT} characters"
    for moment in (query.start, query.end):
        if type(moment.tzinfo) not in ZONE_TYPES:
            return "a window's start and end need an offset"
    if type(query) is Aggregate and query.function not in FUNCTIONS:
        return f"{query.function[:MAX_NAME]!r} is none of {', '.join(sorted(FUNCTIONS))}"
    return ""


def _rows_problem(query: Rows) -> str:
    if not is_text(query.sql, MAX_QUERY_TEXT):
        return f"SQL must be text of at most {MAX_QUERY_TEXT} characters"
    if len(query.params) > MAX_PARAMS:
        return f"a query has at most {MAX_PARAMS} params"
    for pair in query.params:
        if type(pair) is not tuple or len(pair) != len(("name", "value")):
            return "params are (name, value) pairs"
        name, value = pair
        if not is_text(name, MAX_NAME):
            return f"a param's name must be text of at most {MAX_NAME} characters"
        finite = isfinite(value) if type(value) is float else is_storable(value, MAX_QUERY_TEXT)
        if not finite:
            return f"param {name!r} is no text, finite number of 64 bits, truth value or None"
    return ""


def _call_problem(query: Call) -> str:
    if not is_text(query.tool, MAX_NAME) or len(query.arguments) > MAX_QUERY_TEXT:
        return f"a call's arguments must be text of at most {MAX_QUERY_TEXT} characters"
    try:
        arguments = orjson.loads(query.arguments)
    except ValueError as error:
        return f"a call's arguments are not JSON: {error}"
    return "" if isinstance(arguments, dict) else "a call's arguments must be a JSON object"


def judge(
    tool: Tool, site: str, timestamp: datetime, context: ToolContext, marker: Marker
) -> Verdict:
    """The tool's verdict. Raises ToolFailed."""
    return checked(_run(tool, marker, tool.evaluate, site, timestamp, context))


def checked(verdict: Any) -> Verdict:
    """`verdict` if it is one and within bounds. Raises ToolFailed."""
    if type(verdict) is not Verdict:
        raise ToolFailed(
            ToolFailure.INVALID_RESULT,
            f"evaluate() returned {type(verdict).__name__}, not a Verdict",
        )
    problem = verdict_problem(verdict)
    if problem:
        raise ToolFailed(ToolFailure.INVALID_RESULT, problem)
    return verdict


def raised(tool: Tool, error: BaseException) -> ToolFailed:
    """The tool's own exception as its failure, with the line of the tool's file. The file is named
    as seen from the library: failures go into decisions, and those to sinks."""
    file = tool.file or tool.evaluate.__code__.co_filename
    line, step = 0, error.__traceback__
    while step is not None:
        if step.tb_frame.f_code.co_filename == file:
            line = step.tb_lineno
        step = step.tb_next
    try:
        text = str(error)[:MAX_NAME]
    except Exception as worse:  # noqa: BLE001 - an exception of the tool's own making may raise too
        text = f"its message raised {type(worse).__name__}"
    detail = f"{tool.node}/v{tool.version}.py:{line}: {type(error).__name__}: {text}"
    # A lone surrogate has no bytes: it would end the commit of the decision.
    return ToolFailed(ToolFailure.RAISED, detail.encode(errors="replace").decode())


def _run(tool: Tool, marker: Marker, function: Callable[..., Any], *arguments: Any) -> Any:
    marker.enter(tool)
    try:
        return function(*arguments)
    except (Exception, SystemExit) as error:
        # SystemExit: a tool must not end the daemon, and the import policy is only a lint.
        raise raised(tool, error) from error
    finally:
        marker.leave()
