"""Cases from lines of JSON, with every fault named by its line and field.

Each line is one case (`cases_format.CaseEntry`). A write that was cut off leaves at most a last
line without an end, which is told apart from a line that is wrong.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, BinaryIO, NamedTuple

import orjson
from pydantic import ValidationError

from triage.errors import Finding
from triage.maker.cases_check import CaseCheck
from triage.maker.cases_format import CaseEntry, Fault, faults
from triage.model.case import LabelledCase, case_id
from triage.model.decision import NodeId
from triage.sop.located import plain
from triage.sop.nearest import Nearest
from triage.sop.procedure import Node, Sop
from triage.sop.sites import Sites

MAX_FILE = 256 << 20  # bytes
MAX_LINE = 32 << 20  # bytes: a case with some thirty answers of the largest kind
MAX_CASES = 100_000
MAX_FINDINGS = 1_000  # a file of another kind has a fault a line
_MARK = b"\xef\xbb\xbf"  # some editors begin a file with it


class CasesRead(NamedTuple):
    """What a file holds. `cases` are the sound ones in the file's order, `lines` their 1-based
    lines by id. `complete` is False when the reading stopped before the end; an error says why.
    `torn` is then True when the last line has no end and is not JSON. `size` is in bytes."""

    file: str
    cases: tuple[LabelledCase, ...] = ()
    lines: Mapping[str, int] = MappingProxyType({})
    findings: tuple[Finding, ...] = ()
    complete: bool = True
    torn: bool = False
    size: int = 0

    @property
    def errors(self) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if not finding.warning)


def parse_cases(stream: BinaryIO, file: str, node: str, sop: Sop, sites: Sites) -> CasesRead:
    """The cases in `stream`; `file` is what findings call it. Reads line by line, and no more than
    a line beyond MAX_FILE bytes. Raises OSError."""
    owner = sop.nodes.get(NodeId(node))
    if owner is None:
        fix = Nearest()(node, sop.nodes) or "name a node of the SOP"
        problem = f"the SOP has no node `{plain(node)}`"
        return CasesRead(file, findings=(Finding(file=file, problem=problem, fix=fix),))
    reading = _Reading(file, owner, sop, sites)
    reading.all_of(stream)
    return reading.result()


def asked_id(case: LabelledCase) -> str:
    """The id that the case would have without a name of its own."""
    return case_id(case.node, case.warehouse, case.timestamp, case.entity, case.params)


def same_label(case: LabelledCase, other: LabelledCase) -> bool:
    """A subject that nobody judged contradicts none."""
    subjects = {case.subject, other.subject} - {None}
    return case.expected == other.expected and len(subjects) <= 1


def label(case: LabelledCase) -> str:
    """What is expected, in words."""
    if case.subject is None:
        return case.expected
    return f"{case.expected} on {plain(case.subject) or 'the entity'}"


class _Reading:
    """One file, line after line."""

    def __init__(self, file: str, node: Node, sop: Sop, sites: Sites) -> None:
        self._file = file
        self._check = CaseCheck(node, sop, sites)
        self._cases: list[LabelledCase] = []
        self._lines: dict[str, int] = {}
        self._asked: dict[str, tuple[int, LabelledCase]] = {}
        self._findings: list[Finding] = []
        self._stopped = False
        self._torn = False
        self._size = 0

    def result(self) -> CasesRead:
        return CasesRead(
            file=self._file,
            cases=tuple(self._cases),
            lines=self._lines,
            findings=tuple(self._findings),
            complete=not self._stopped,
            torn=self._torn,
            size=self._size,
        )

    def all_of(self, stream: BinaryIO) -> None:
        for number, line in self._each(stream):
            if number == 1:
                self._one_document(line.strip())
            if len(self._findings) >= MAX_FINDINGS:
                self._stop(number, f"reading stopped after {MAX_FINDINGS} findings", "mend them")
            if len(self._cases) >= MAX_CASES:
                self._stop(number, f"reading stopped after {MAX_CASES} cases", "keep fewer")
            if self._stopped:
                return
            self._take(number, line)

    def _each(self, stream: BinaryIO) -> Iterator[tuple[int, bytes]]:
        """Lines that are not blank and not too long, with their numbers."""
        number = 0
        while line := stream.readline(MAX_LINE + 1):
            number += 1
            self._size += len(line)
            if len(line) > MAX_LINE:
                problem = f"the line is longer than {MAX_LINE >> 20} MiB"
                self._say(number, problem, "keep fewer or smaller answers with the case")
                while line and not line.endswith(b"\n") and self._size <= MAX_FILE:
                    line = stream.readline(MAX_LINE)
                    self._size += len(line)
                line = b""
            if self._size > MAX_FILE:
                problem = f"reading stopped: the file is larger than {MAX_FILE >> 20} MiB"
                self._stop(number, problem, "keep fewer cases, or smaller answers")
                return
            if number == 1:
                line = line.removeprefix(_MARK)
            if line.strip():
                yield number, line

    def _one_document(self, line: bytes) -> None:
        """`line` is the first."""
        if line.startswith(b"["):
            fix = f"write one case a line: jq -c '.[]' {self._file}"
            self._stop(1, "the file is one list, not a case a line", fix)
        elif line == b"{":
            fix = f"write one case a line: jq -c . {self._file}"
            self._stop(1, "the case goes over several lines", fix)

    def _take(self, number: int, line: bytes) -> None:
        try:
            data = orjson.loads(line)
        except orjson.JSONDecodeError as error:
            self._no_json(number, line, error)
            return
        if not isinstance(data, dict):
            self._say(number, "is no object", "write one object a line")
            return
        try:
            written = orjson.dumps(data)
        except TypeError:
            self._say(
                number, "is nested too deeply", "keep answers flatter: about 250 levels at most"
            )
            return
        # What was written by `case_line` has no key twice; only what a person wrote is read again.
        if written != line.rstrip() and (twice := _key_twice(line)):
            self._say(number, f"the key `{plain(twice)}` is given twice", "keep one of them")
            return
        try:
            entry = CaseEntry.model_validate(data)
        except ValidationError as error:
            self._all(number, faults(error))
            return
        case, found = self._check.case(entry)
        self._all(number, found)
        if case is not None:
            self._keep(number, case)

    def _no_json(self, number: int, line: bytes, error: orjson.JSONDecodeError) -> None:
        if line.endswith(b"\n"):
            where = f" at character {error.pos + 1}" if error.pos else ""
            self._say(number, f"is not JSON: {error.msg}{where}", "write one object a line")
            return
        self._torn = True
        problem = "the last line is torn: a write was cut off, or it is not JSON"
        self._stop(number, problem, "remove or complete it; the lines before it are whole")

    def _keep(self, number: int, case: LabelledCase) -> None:
        before = self._asked.get(asked := asked_id(case))
        if before is not None:
            self._again(number, case, *before)
        elif case.case_id in self._lines:
            problem = f"`{case.case_id}` is the case on line {self._lines[case.case_id]} already"
            self._say(number, problem, "give it another name, or none", ("case",))
        else:
            self._asked[asked] = (number, case)
            self._lines[case.case_id] = number
            self._cases.append(case)

    def _again(self, number: int, case: LabelledCase, first: int, other: LabelledCase) -> None:
        if same_label(case, other):
            problem = f"asks what line {first} asks, with the same label"
            self._say(number, problem, "remove one of them", warning=True)
            return
        problem = f"is {label(case)}, but line {first}, which asks the same, says {label(other)}"
        self._say(number, problem, f"keep one of lines {first} and {number}", ("expected",))

    def _all(self, number: int, found: Iterable[Fault]) -> None:
        for fault in found:
            self._say(number, fault.problem, fault.fix, fault.path, warning=fault.warning)

    def _stop(self, number: int, problem: str, fix: str) -> None:
        self._stopped = True
        self._say(number, problem, fix)

    def _say(
        self,
        number: int,
        problem: str,
        fix: str,
        path: Sequence[str | int] = (),
        *,
        warning: bool = False,
    ) -> None:
        self._findings.append(
            Finding(
                file=self._file,
                line=number,
                where=_dotted(path),
                problem=problem,
                fix=fix,
                warning=warning,
            )
        )


def _key_twice(line: bytes) -> str:
    """A key that one object has twice, or an empty string."""
    found: list[str] = []

    def look(pairs: list[tuple[str, Any]]) -> None:
        counts = Counter(key for key, _ in pairs)
        found.extend(key for key, count in counts.items() if count > 1)

    json.loads(line, object_pairs_hook=look, parse_int=str, parse_float=str)
    return min(found, default="")


def _dotted(path: Sequence[str | int]) -> str:
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{plain(part)}"
    return text.removeprefix(".")
