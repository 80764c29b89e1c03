"""What a tool is tried with, and what came of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple, Protocol

from triage.model.decision import NodeId
from triage.model.query import Answer, Query
from triage.model.site import ParamValue, Site
from triage.model.verdict import Clause, Verdict

FAILED = "failed"

Ease = Callable[[], Awaitable[None]]
"""Awaited by what can wait, so that alerts come first. Raises nothing."""


async def at_once() -> None:
    """For what nobody has to come before."""


class Candidate(NamedTuple):
    """A tool's source as text. `sources` are those the node declares: asking any other is a
    failure."""

    node: NodeId
    text: str
    sources: tuple[str, ...]
    dynamic: bool = False
    reads_parents: tuple[str, ...] = ()


class Setting(NamedTuple):
    """All that a tool may see beside the answers. `params` are the site's, overrides applied;
    `timestamp` is aware UTC. `parents` are of all the nodes before, of which a tool sees those that
    it says it reads."""

    site: Site
    params: Mapping[str, ParamValue]
    timestamp: datetime
    entity: str = ""
    labels: Mapping[str, str] = {}
    parents: Mapping[str, Verdict] = {}


class Told(NamedTuple):
    """One query and its answer; `body` is the encoded answer, empty when there was none, and then
    `failure` is a reason (`errors.SourceFailure` or `ToolFailure`) and `detail` one line."""

    query: Query
    body: bytes
    failure: str = ""
    detail: str = ""


class Tried(NamedTuple):
    """What a tool came to in one setting. `value` is a verdict's word or FAILED; then `failure` is
    a ToolFailure, SourceFailure or a FallbackFailure of the sandbox, and `detail` one line for
    people and models, with the line number of the tool's own source where there is one.
    `asked` are its queries in the order asked. `elapsed_ms` is time in the sandbox, waiting for
    answers not included."""

    value: str
    subject: str = ""
    clauses: tuple[Clause, ...] = ()
    explanation: str = ""
    failure: str = ""
    detail: str = ""
    asked: tuple[Told, ...] = ()
    elapsed_ms: float = 0.0

    @property
    def ok(self) -> bool:
        return self.value != FAILED


class Answers(Protocol):
    """Where a trial's answers come from: live sources, a recording, or one changed on purpose."""

    async def answer(self, query: Query, *, timeout_s: float) -> Answer:
        """Raises SourceFailed (`unrecorded` for a recording that does not have it) and
        ToolFailed, as a source does. May be cancelled."""


class Trials(Protocol):
    """Runs candidates in the sandbox. Nothing a candidate does raises: it comes out as a failed
    `Tried`. Raises SandboxFailed when there is no sandbox to be had. May be cancelled."""

    async def run(
        self, candidate: Candidate, settings: Sequence[tuple[Setting, Answers]]
    ) -> list[Tried]:
        """One a setting, in order. No state goes from one setting to the next that a tool which
        keeps to the contract could see."""
