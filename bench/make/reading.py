"""A maker's prompts, read back: which step it is, and what its traces and failing cases show.

Only what stands in the prompt is read, by the headings and lines that its reader is told of. What
is not there, or is cut off, is not known.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

FAILED = "failed"
NOTHING = "-"

_FENCE = re.compile(r"^(`{3,}|~{3,})(\w*)\s*$")
_HEADING = re.compile(r"^# +(.+?)\s*$")
_BLOCK = re.compile(r"^## +(Trace|Case)\b *(.*?)\s*$")
_LINE = re.compile(
    r"^(site|units|entity|timestamp|labels|params|parents|expected subject|expected|verdict"
    r"|predicted subject|predicted|explanation):(?: (.*))?$"
)
_CLAUSE = re.compile(r"^- (.*): (\S+) (>=|<=|==|!=|>|<) (\S+)(?: (.+?))? -> (true|false|null)$")
_ANSWER = re.compile(
    r"^answer(?: \d+)?: (?:failed: (?P<failure>.*)|(?:(?P<size>\d+) (?P<kind>\w+))?.*)$"
)
_STEP = re.compile(r"\b(?:step|sample every) (\S+) s\b")
_DOUBLED = re.compile(r"\b(\d+)(?: of them)? doubled\b")
_TYPE = re.compile(r"local timestamp|[\w-]+")


class Step(StrEnum):
    COLLECT = "collect"
    """The agent's: it may call host functions."""
    MAKE = "make"
    REFLECT = "reflect"
    REPAIR = "repair"
    UNKNOWN = "unknown"


class Field(NamedTuple):
    """A row of an answer's table. `low` and `high` are None for what has no numbers."""

    name: str
    types: tuple[str, ...]
    nulls: int
    low: float | None
    high: float | None
    examples: str


class SaidAnswer(NamedTuple):
    """`query` is what stands behind `query:`, `kind` series, readings, rows or json, empty where
    nothing was found. `failure` stands in place of `size`. `doubled` counts rows that are there
    already."""

    query: str
    kind: str = ""
    size: int = 0
    step_s: float | None = None
    failure: str = ""
    doubled: int = 0
    fields: tuple[Field, ...] = ()


class SaidClause(NamedTuple):
    """Figures are None where they are no numbers."""

    name: str
    observed: float | None
    op: str
    threshold: float | None
    unit: str
    holds: bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """One trace or failing case. `text` is all of it."""

    text: str
    lines: Mapping[str, str] = field(default_factory=dict)
    units: Mapping[str, str] = field(default_factory=dict)
    clauses: tuple[SaidClause, ...] = ()
    answers: tuple[SaidAnswer, ...] = ()

    @property
    def expected(self) -> str:
        return self.lines.get("expected", "")

    @property
    def predicted(self) -> str:
        """A verdict's word, or FAILED."""
        said = self.lines.get("predicted", "")
        return FAILED if said.startswith(FAILED) else said

    @property
    def failure(self) -> str:
        """Reason and detail; empty when it did not fail."""
        said = self.lines.get("predicted", "")
        return said.removeprefix(FAILED).lstrip(": ") if said.startswith(FAILED) else ""

    @property
    def wrong_subject(self) -> bool:
        """Whether a subject was expected, and another predicted."""
        wanted = self.lines.get("expected subject")
        return (
            wanted is not None
            and self.predicted != FAILED
            and wanted != self.lines.get("predicted subject", "")
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """`question` is all that stands under the last heading of that name. `candidate` is empty where
    there is none. `units` are a metric and a unit that some site reports it in."""

    step: Step
    question: str
    candidate: str = ""
    units: tuple[tuple[str, str], ...] = ()
    traces: tuple[Shown, ...] = ()
    cases: tuple[Shown, ...] = ()


def read_prompt(text: str) -> Prompt:
    """Never raises: of a text that is no such prompt the step is UNKNOWN."""
    sections = _sections(text)
    names = set(sections)
    if "Host functions" in names:
        step = Step.COLLECT
    elif {"Failing cases", "Diagnosis"} <= names:
        step = Step.REPAIR
    elif "Failing cases" in names:
        step = Step.REFLECT
    elif "Question" in names and "Sources" in names:
        step = Step.MAKE
    else:
        step = Step.UNKNOWN
    return Prompt(
        step=step,
        question=sections.get("Question", ""),
        candidate=_code(sections.get("Candidate", "")),
        units=tuple(_units(sections.get("Params", ""))),
        traces=tuple(_blocks(sections.get("Traces", ""))),
        cases=tuple(_blocks(sections.get("Failing cases", ""))),
    )


def _sections(text: str) -> dict[str, str]:
    """By heading; of those that come again, the last. A heading inside a fence is none."""
    found: dict[str, list[str]] = {}
    here: list[str] = []
    for line, fenced in _fenced(text.splitlines()):
        heading = None if fenced else _HEADING.match(line)
        if heading is not None:
            here = found[heading[1]] = []
        else:
            here.append(line)
    return {name: "\n".join(lines) for name, lines in found.items()}


def _units(section: str) -> Iterator[tuple[str, str]]:
    for line, fenced in _fenced(section.splitlines()):
        if fenced and line.startswith("units: "):
            for metric, units in _document(line.removeprefix("units: ")).items():
                for unit in units:
                    yield metric, unit


def _fenced(lines: Sequence[str]) -> Iterator[tuple[str, bool]]:
    """Each line, and whether it is of a fence or inside of one. A fence ends with a row that is as
    long as the one it began with."""
    ends = ""
    for line in lines:
        fence = _FENCE.match(line)
        if ends:
            yield line, True
            if fence is not None and fence[1] == ends and not fence[2]:
                ends = ""
        elif fence is not None:
            ends = fence[1]
            yield line, True
        else:
            yield line, False


def _code(section: str) -> str:
    """What the first fence holds."""
    inside: list[str] = []
    for line, fenced in _fenced(section.splitlines()):
        if fenced:
            inside.append(line)
        elif inside:
            break
    return "\n".join(inside[1:-1])


def _blocks(section: str) -> Iterator[Shown]:
    blocks: list[list[str]] = []
    for line, fenced in _fenced(section.splitlines()):
        if not fenced and _BLOCK.match(line):
            blocks.append([])
        elif blocks:
            blocks[-1].append(line)
    for lines in blocks:
        yield _shown(lines)


def _shown(lines: Sequence[str]) -> Shown:
    said: dict[str, str] = {}
    clauses: list[SaidClause] = []
    answers: list[SaidAnswer] = []
    for line in lines:
        if line.startswith("query: "):
            answers.append(SaidAnswer(line.removeprefix("query: ")))
        elif answers and (told := _ANSWER.match(line)) is not None:
            answers[-1] = _answered(answers[-1], told)
        elif answers and (row := _field(line)) is not None:
            answers[-1] = answers[-1]._replace(fields=(*answers[-1].fields, row))
        elif (clause := _CLAUSE.match(line)) is not None:
            clauses.append(_clause(clause))
        elif (fact := _LINE.match(line)) is not None:
            said.setdefault(fact[1], fact[2] or "")
    return Shown(
        text="\n".join(lines),
        lines=said,
        units={name: str(unit) for name, unit in _document(said.get("units", "")).items()},
        clauses=tuple(clauses),
        answers=tuple(answers),
    )


def _answered(answer: SaidAnswer, told: re.Match[str]) -> SaidAnswer:
    if told["failure"] is not None:
        return answer._replace(failure=told["failure"])
    step = _STEP.search(told[0])
    doubled = _DOUBLED.search(told[0])
    kind = told["kind"] or ""
    return answer._replace(
        kind="json" if kind in ("values", "value") else kind,
        size=int(told["size"] or 0),
        step_s=_number(step[1]) if step is not None else None,
        doubled=int(doubled[1]) if doubled is not None else 0,
    )


def _field(line: str) -> Field | None:
    """None for a line that is no row of a table, or its head."""
    cells = [cell.strip() for cell in line.strip().removeprefix("|").removesuffix("|").split(" | ")]
    if len(cells) < 7 or not (cells[2].isdigit() and cells[3].isdigit()):
        return None
    name, types, _, nulls, low, high, *examples = cells
    return Field(
        name=name,
        types=tuple(_TYPE.findall(types)),
        nulls=int(nulls),
        low=_number(low),
        high=_number(high),
        examples=" | ".join(examples),
    )


def _clause(found: re.Match[str]) -> SaidClause:
    name, observed, op, threshold, unit, holds = found.groups()
    return SaidClause(
        name=name,
        observed=_number(observed),
        op=op,
        threshold=_number(threshold),
        unit=unit or "",
        holds={"true": True, "false": False}.get(holds),
    )


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _document(text: str) -> Mapping[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
