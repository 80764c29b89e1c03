"""What the steps of making a tool hand to each other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from triage.model.case import LabelledCase
from triage.model.decision import NodeId
from triage.model.trace import Turn
from triage.trial.model import Candidate, Tried


class SeenField(NamedTuple):
    """One field of the answers to one query: a label, the value of series and readings (named
    `value`), a column, or a path into JSON (`a.b[]`). `types` are JSON's words and, for text,
    `text`, `timestamp` (with an offset) or `local timestamp` (without). `nulls` counts null, NaN
    and missing ones of `count`. `low` and `high` are of numbers; `examples` are spelled as JSON,
    masked."""

    name: str
    types: tuple[str, ...]
    count: int  # type: ignore[assignment]  # a field, and no longer the method of tuples
    nulls: int = 0
    low: float | None = None
    high: float | None = None
    examples: tuple[str, ...] = ()


class SeenAnswer(NamedTuple):
    """What a source said to one query, as a maker may see it. `kind` is series, readings, rows or
    json; `size` how many of them. `step_s` is the usual distance between a series' samples in
    seconds, `gaps` how many times it was more than twice that; None and 0 for other kinds.
    `failure` is the error in place of an answer."""

    query: Mapping[str, Any]
    kind: str
    size: int
    fields: tuple[SeenField, ...] = ()
    step_s: float | None = None
    gaps: int = 0
    failure: str = ""


class CaseTrace(NamedTuple):
    """A node worked by an agent on one training case, or by a fallback on a live alert. `verdict`
    is its word, or why it ended without one; `right` None where nobody knows. `origin` is a case's
    id or `decision <alert id>`. `units` are the site's."""

    origin: str
    node: NodeId
    site: str
    units: Mapping[str, str]
    entity: str
    timestamp: str
    expected: str
    verdict: str
    right: bool | None
    turns: tuple[Turn, ...]
    answers: tuple[SeenAnswer, ...]
    tokens: int = 0


class Mismatch(NamedTuple):
    """A case that a candidate got wrong: (input, expected, predicted), and what it saw."""

    case: LabelledCase
    tried: Tried
    units: Mapping[str, str]
    answers: tuple[SeenAnswer, ...]


class Score(NamedTuple):
    """A candidate on one part of the cases. `confusion` maps (expected, got) to a count, got being
    a verdict's word, `failed`, or the right word with `!` when only the subject was wrong. `p50_ms`
    and `p95_ms` are of evaluations in the sandbox, answers not included."""

    passed: int
    total: int
    confusion: Mapping[tuple[str, str], int]
    p50_ms: float
    p95_ms: float
    max_queries: int
    mismatches: tuple[Mismatch, ...] = ()

    @property
    def rate(self) -> float:
        """1.0 of no cases: nothing was wrong."""
        return self.passed / self.total if self.total else 1.0


class Gate(NamedTuple):
    """One thing a candidate must pass. `name` is of `maker.gates.GATES`; `detail` says what was
    found, and what to do where it did not pass."""

    name: str
    passed: bool
    detail: str


class Round(NamedTuple):
    """One candidate: the first, or a repair after `diagnosis`. `blamed` is the sentence of the
    node's text that the diagnosis quotes, empty when it quotes none. `refused` is why the source
    could not be tried at all (no code, no Python, policy), empty when it was."""

    number: int
    candidate: Candidate
    sha256: str
    score: Score | None
    diagnosis: str = ""
    blamed: str = ""
    refused: str = ""


class Said(NamedTuple):
    """One exchange with the model, for the transcript. `step` is collect, make, reflect or
    repair."""

    step: str
    round: int
    messages: tuple[tuple[str, str], ...]
    reply: str
    prompt_tokens: int
    completion_tokens: int
    elapsed_ms: float


class Made(NamedTuple):
    """How it ended. `best` is None when no round gave anything to try. `version` is the number it
    was registered under, None when a gate refused it or nobody asked. `problem` says in one line
    why there is no candidate, or why the rounds ended early; `unavailable` that it is the model, a
    source or the sandbox that could not be had."""

    node: NodeId
    best: Round | None
    rounds: tuple[Round, ...]
    train: Score | None
    heldout: Score | None
    gates: tuple[Gate, ...]
    traces: tuple[CaseTrace, ...]
    transcript: tuple[Said, ...]
    tokens: int
    seconds: float
    version: int | None = None
    problem: str = ""
    unavailable: bool = False

    @property
    def passed(self) -> bool:
        return self.best is not None and all(gate.passed for gate in self.gates)
