"""Candidates, settings and answers made by hand, and both ways to try them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from time import monotonic as clock
from typing import Any

from triage.adapters.sandbox import MontySandbox, SandboxLimits
from triage.library.catalogue import Tool
from triage.library.namespace import Namespaces
from triage.model.canonical import sha256_hex
from triage.model.decision import NodeId
from triage.model.query import Answer, Query, Rows, Series
from triage.model.site import Site
from triage.model.verdict import Verdict
from triage.trial.in_process import ApprovedTrials
from triage.trial.limits import TrialLimits
from triage.trial.model import Answers, Candidate, Ease, Setting, Tried, at_once
from triage.trial.trials import SandboxTrials

NODE = NodeId("obs_depth")
AT = datetime(2026, 11, 18, 15, 7, tzinfo=UTC)
SITE = Site(
    name="north", zone="America/New_York", units={"depth": "m"}, facts={"words": {"CH": "chute"}}
)
SANDBOX = SandboxLimits(workers=1, memory_bytes=48 << 20, feed_s=20.0, printed_bytes=1_000)
LIMITS = TrialLimits(evaluate_s=10.0, load_s=20.0)
SHORT = TrialLimits(evaluate_s=1.0, load_s=20.0)
"""For code that does not end. Nothing else comes near it."""

HEAD = """
from datetime import datetime, timedelta
from triage.tool_api import (
    Call, Clause, Context, Query, Rows, Samples, Truth, Verdict, call, compare, conclude, no_data,
    rows, samples, selector,
)
"""
TOOL = f"""{HEAD}
def queries(warehouse: str, timestamp: datetime, context: Context) -> list[Query]:
    return [rows("memory", "select depth", site=warehouse)]

def evaluate(warehouse: str, timestamp: datetime, context: Context) -> Verdict:
    found = context.answer(queries(warehouse, timestamp, context)[0])
    if not found:
        return no_data("no depth", subject=context.entity)
    limit = float(context.params["limit"])
    clause = compare("depth", found[0]["value"], ">", limit, "m")
    return conclude([clause], f"{{found[0]['value']}} against {{limit}}", subject=context.entity)
"""
DEPTH = Rows("memory", "select depth", (("site", "north"),))


def candidate(
    text: str = TOOL,
    *,
    sources: Sequence[str] = ("memory",),
    dynamic: bool = False,
    reads_parents: Sequence[str] = (),
) -> Candidate:
    return Candidate(NODE, text, tuple(sources), dynamic, tuple(reads_parents))


def judging(body: str) -> str:
    """A tool that asks for the depth and judges with `body`, which begins at line 11."""
    return f"""{HEAD}
def queries(warehouse, timestamp, context):
    return [rows("memory", "select depth", site=warehouse)]
def evaluate(warehouse, timestamp, context):
{indented(body)}
"""


def asking(body: str) -> str:
    """A tool that asks with `body`, which begins at line 9, and judges nothing."""
    return f"""{HEAD}
def queries(warehouse, timestamp, context):
{indented(body)}
def evaluate(warehouse, timestamp, context):
    return no_data("nothing")
"""


def stepping(body: str) -> str:
    """A dynamic tool; `body` begins at line 9."""
    return f"""{HEAD}
async def evaluate(warehouse, timestamp, context):
{indented(body)}
"""


def indented(body: str) -> str:
    return "\n".join(f"    {line}" for line in body.strip().split("\n"))


def setting(
    entity: str = "CH-1",
    *,
    site: Site = SITE,
    at: datetime = AT,
    params: Mapping[str, Any] | None = None,
    labels: Mapping[str, str] | None = None,
    parents: Mapping[str, Verdict] | None = None,
) -> Setting:
    return Setting(site, {"limit": 10, **(params or {})}, at, entity, labels or {}, parents or {})


class Given:
    """Answers from a mapping or a function; an exception among them is raised. `asked` are the
    queries in the order they came."""

    def __init__(self, answers: Mapping[Query, Any] | Callable[[Query], Any]) -> None:
        self._answers = answers.__getitem__ if isinstance(answers, Mapping) else answers
        self.asked: list[Query] = []

    async def answer(self, query: Query, *, timeout_s: float) -> Answer:
        self.asked.append(query)
        answer = self._answers(query)
        if isinstance(answer, Exception):
            raise answer
        return answer


def depth(value: Any = 12.5) -> Given:
    return Given(lambda _query: ({"value": value},))


def series(*values: float) -> tuple[Series, ...]:
    times = tuple(float(AT.timestamp() - 60 * back) for back in range(len(values), 0, -1))
    return (Series({"asset": "CH-1"}, times, values),)


@asynccontextmanager
async def in_sandbox(
    limits: TrialLimits = LIMITS,
    *,
    sandbox: SandboxLimits = SANDBOX,
    monotonic: Callable[[], float] = clock,
    ease: Ease = at_once,
) -> AsyncIterator[SandboxTrials]:
    monty = MontySandbox(sandbox, wait_s=60.0)
    await monty.open()
    try:
        assert monty.trouble == ""
        yield SandboxTrials(monty, limits=limits, monotonic=monotonic, ease=ease)
    finally:
        await monty.close()


def tool_of(one: Candidate) -> Tool:
    """As the library would load it, but for the policy."""
    body = one.text.encode()
    code = compile(one.text, "v1.py", "exec", dont_inherit=True)
    queries, evaluate = Namespaces().functions(
        code, file="v1.py", node=one.node, dynamic=one.dynamic
    )
    return Tool(
        node=one.node,
        version=1,
        sha256=sha256_hex(body),
        dynamic=one.dynamic,
        reads_parents=tuple(NodeId(name) for name in one.reads_parents),
        queries=queries,
        evaluate=evaluate,
        file="v1.py",
    )


def in_process(one: Candidate, limits: TrialLimits = LIMITS) -> ApprovedTrials:
    return ApprovedTrials(tool_of(one), limits=limits, monotonic=clock)


async def both(
    one: Candidate, of: Setting, answers: Callable[[], Answers], *, same_words: bool = True
) -> Tried:
    """What the sandbox says, after making sure that this process says the same, bit for bit; but
    for the words of an exception of the interpreter's own without `same_words`."""
    here = (await in_process(one).run(one, [(of, answers())]))[0]
    async with in_sandbox() as trials:
        there = (await trials.run(one, [(of, answers())]))[0]
    if not same_words:
        here = here._replace(detail=there.detail)
    assert shown(there) == shown(here)
    return there


def sql_of(query: Query) -> str:
    assert isinstance(query, Rows)
    return query.sql


def shown(tried: Tried) -> str:
    """By repr, which tells every bit of a float; without the time."""
    return repr(tried._replace(elapsed_ms=0.0))
