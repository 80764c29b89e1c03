"""`cases.jsonl` beside a node's tools: read whole, appended to, never rewritten.

What was there stays readable whatever is killed when: an append that was cut off leaves at most a
last line without an end.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import orjson

from triage.errors import ConfigError, Finding, InvalidFiles
from triage.library.files import Unreadable, is_folder_name, locked, sync_folder, within
from triage.maker.cases_reading import (
    MAX_FILE,
    CasesRead,
    asked_id,
    label,
    parse_cases,
    same_label,
)
from triage.model.case import LabelledCase
from triage.model.decision import NodeId
from triage.model.verdict import Verdict
from triage.sop.procedure import Sop
from triage.sop.sites import Sites

__all__ = ["Appended", "CasesRead", "append_cases", "case_line", "cases_path", "read_cases"]

CASES_NAME = "cases.jsonl"


class Appended(NamedTuple):
    """Ids of cases: those written, and those that the file had already, with the same label."""

    added: tuple[str, ...]
    already: tuple[str, ...]


def cases_path(root: Path, node: str) -> Path:
    """Where the cases of `node` lie in the library at `root`."""
    return root / node / CASES_NAME


# --- reading ----------------------------------------------------------------------------------


def read_cases(path: Path, sop: Sop, sites: Sites) -> CasesRead:
    """The cases of the node whose folder `path` lies in; none where there is no such file.

    Whatever is wrong is a finding, with its line, also a file that cannot be read: look at
    `errors`. Blocking: reads up to 256 MiB. May wait for another process that is appending.
    """
    read = _read(path, sop, sites)
    if not read.torn:
        return read
    # A write that is under way looks like one that was cut off.
    with locked(path.parent):
        return _read(path, sop, sites)


def _read(path: Path, sop: Sop, sites: Sites) -> CasesRead:
    try:
        stream = _opened(path)
    except Unreadable as error:
        if error.missing:
            return CasesRead(str(path))
        return _unusable(path, error.problem, error.fix)
    try:
        with stream:
            return parse_cases(stream, str(path), path.parent.name, sop, sites)
    except OSError as error:
        return _unusable(path, f"cannot be read: {error.strerror}", "check the disk")


def _unusable(path: Path, problem: str, fix: str) -> CasesRead:
    finding = Finding(file=str(path), problem=problem, fix=fix)
    return CasesRead(str(path), findings=(finding,), complete=False)


def _opened(path: Path) -> BinaryIO:
    """Raises Unreadable."""
    real = within(path.parent.parent, path)
    try:
        # O_NONBLOCK: opening a pipe that nobody writes to would otherwise wait for ever.
        descriptor = os.open(real, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW)
    except (FileNotFoundError, NotADirectoryError):
        raise Unreadable(path, "there is no such file", "add a case", missing=True) from None
    except OSError as error:
        problem = f"cannot be opened: {error.strerror}"
        raise Unreadable(path, problem, "make it readable") from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise Unreadable(path, "is not a regular file", "put the file itself there")
    return os.fdopen(descriptor, "rb")


# --- writing ----------------------------------------------------------------------------------


def case_line(case: LabelledCase) -> bytes:
    """The case as a line of the file, its end included. Raises ConfigError for answers that no
    line can hold."""
    try:
        answers = [
            {
                "query": dict(one.query),
                "answer": orjson.loads(one.body) if one.body else None,
                **({"failure": one.failure} if one.failure else {}),
            }
            for one in case.answers
        ]
    except orjson.JSONDecodeError as error:
        raise ConfigError(f"{case.case_id}: a recorded answer is not JSON: {error.msg}") from None
    context = {
        "entity": case.entity,
        "labels": dict(case.labels),
        "params": dict(case.params),
        "parents": {node: _verdict_document(one) for node, one in case.parents.items()},
    }
    document = {
        "case": case.case_id,
        "node": case.node,
        "warehouse": case.warehouse,
        "timestamp": case.timestamp.isoformat(),
        "context": {key: value for key, value in context.items() if value},
        "expected": case.expected,
        **({"subject": case.subject} if case.subject is not None else {}),
        **{
            key: value for key in ("split", "origin", "by", "note") if (value := getattr(case, key))
        },
        **({"answers": answers} if answers else {}),
    }
    try:
        return orjson.dumps(document) + b"\n"
    except TypeError as error:
        raise ConfigError(f"{case.case_id}: cannot be written as JSON: {error}") from None


def append_cases(
    root: Path, node: NodeId, cases: Sequence[LabelledCase], sop: Sop, sites: Sites
) -> Appended:
    """Add `cases` to the node's file in the library at `root`, all of them or none, durable when it
    returns. A case that the file has, with the same label, is not written again.

    Waits for the library's lock of this node. Raises InvalidFiles for a case that could not be read
    again as it is, for one that contradicts another, and for a file whose last line is torn;
    Unreadable or ConfigError for a folder that cannot be used. Then nothing has changed.
    """
    if not is_folder_name(node):
        raise ConfigError(f"{node!r} cannot be the name of a folder — name a node of the SOP")
    lines = [case_line(case) for case in cases]
    _refuse_unlike(root, node, cases, lines, sop, sites)
    folder = within(root, root / node)
    path = cases_path(root, node)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with locked(folder):
            there = _read(path, sop, sites)
            if not there.complete:
                raise InvalidFiles(there.errors[-1:])  # the one that ended the reading
            fresh, already = _fresh(path, cases, there)
            body = b"".join(lines[index] for index in fresh)
            if there.size + len(body) > MAX_FILE:
                raise ConfigError(
                    f"{path}: would be larger than {MAX_FILE >> 20} MiB — keep fewer cases, or"
                    " smaller answers"
                )
            if body:
                _append(within(root, path), body)
    except OSError as error:
        raise ConfigError(
            f"{path}: cannot be written: {error.strerror} — nothing was changed; check the"
            " folder's permissions and the disk"
        ) from error
    return Appended(tuple(cases[index].case_id for index in fresh), already)


def _refuse_unlike(
    root: Path,
    node: NodeId,
    cases: Sequence[LabelledCase],
    lines: Sequence[bytes],
    sop: Sop,
    sites: Sites,
) -> None:
    """Raises InvalidFiles or ConfigError for what would not be read as it was given."""
    again = parse_cases(
        BytesIO(b"".join(lines)), f"{cases_path(root, node)} (new)", node, sop, sites
    )
    if again.errors:
        raise InvalidFiles(again.errors)
    read = {one.case_id: one for one in again.cases}
    for case in cases:
        one = read.get(case.case_id)
        if one is not None and [a.body for a in one.answers] != [a.body for a in case.answers]:
            raise ConfigError(
                f"{case.case_id}: a recorded answer is not as `encode_answer` makes it — encode it"
                " anew"
            )


def _fresh(
    path: Path, cases: Sequence[LabelledCase], there: CasesRead
) -> tuple[list[int], tuple[str, ...]]:
    """Indexes of those that the file does not have, and the ids of the others."""
    known = {asked_id(case): case for case in there.cases}
    names = set(there.lines)
    fresh: list[int] = []
    already: list[str] = []
    findings: list[Finding] = []
    for index, case in enumerate(cases):
        other = known.get(asked := asked_id(case))
        if other is None and case.case_id not in names:
            known[asked] = case
            names.add(case.case_id)
            fresh.append(index)
        elif other is not None and same_label(case, other):
            already.append(case.case_id)
        else:
            findings.append(_taken(path, case, other, there))
    if findings:
        raise InvalidFiles(findings)
    return fresh, tuple(already)


def _taken(path: Path, case: LabelledCase, other: LabelledCase | None, there: CasesRead) -> Finding:
    if other is None:
        line, where = there.lines.get(case.case_id, 0), "case"
        problem = f"the new case has the name of this one, `{case.case_id}`, and asks another thing"
        fix = "give it another name, or none"
    else:
        line, where = there.lines.get(other.case_id, 0), "expected"
        problem = f"is {label(other)}; the new case, which asks the same, says {label(case)}"
        fix = "correct this line, or leave the new case out"
    return Finding(file=str(path), line=line, where=where, problem=problem, fix=fix)


def _append(path: Path, body: bytes) -> None:
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    created = not path.exists()
    descriptor = os.open(path, flags, 0o666)
    with os.fdopen(descriptor, "ab", buffering=0) as file:
        size = os.fstat(descriptor).st_size
        if size and os.pread(descriptor, 1, size - 1) != b"\n":
            body = b"\n" + body  # an editor left the last line without its end
        try:
            rest = memoryview(body)
            while rest:
                rest = rest[file.write(rest) :]
            os.fsync(descriptor)
        except OSError:
            os.ftruncate(descriptor, size)  # no half a line stays behind a full disk
            raise
    if created:
        sync_folder(path.parent)


def _verdict_document(verdict: Verdict) -> dict[str, Any]:
    document: dict[str, Any] = {"value": verdict.value.word}
    if verdict.subject:
        document["subject"] = verdict.subject
    if verdict.explanation:
        document["explanation"] = verdict.explanation
    if verdict.clauses:
        document["clauses"] = [clause._asdict() for clause in verdict.clauses]
    return document
