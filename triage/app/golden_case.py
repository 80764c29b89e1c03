"""Golden cases as values: read from their files, and checked against the SOP they are about."""

from __future__ import annotations

import binascii
import zlib
from base64 import b64decode
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from triage.app.golden_file import (
    CASE_ENTRIES,
    CASE_SECTIONS,
    FILE_SECTIONS,
    AlertEntry,
    AnswerEntry,
    CaseFile,
    CasesFile,
    ExpectEntry,
    GivenVerdict,
)
from triage.errors import Finding
from triage.model.alert import Alert, AlertId, Severity
from triage.model.canonical import canonical_json, sha256_hex
from triage.model.decision import Failure
from triage.sop.located import Located, YamlPath, plain
from triage.sop.nearest import Nearest
from triage.sop.procedure import Sop
from triage.sop.reading import locate, read_file
from triage.sop.shape import shape
from triage.sop.sites import Sites

SUFFIXES = frozenset({".yaml", ".yml", ".json"})
MAX_ANSWER = 64 << 20  # bytes that a packed answer may unpack to

_ANSWER_FORMS = ("answer", "packed", "failure")


@dataclass(frozen=True, slots=True, kw_only=True)
class WalkOnly:
    """`verdicts` maps a node to what it is taken to have said."""

    alarm: str
    entity: str
    site: str
    verdicts: Mapping[str, GivenVerdict]


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """`bodies` maps the SHA-256 of a query to its encoded answer, `failures` to how it failed."""

    alert: Alert
    bodies: Mapping[str, bytes]
    failures: Mapping[str, Failure]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """`name` is the file's without its suffix, and the case's own where a file has several.
    `located` knows the line of every part."""

    name: str
    file: Path
    about: str
    expect: ExpectEntry
    content: WalkOnly | Recorded
    located: Located


@dataclass(frozen=True, slots=True, kw_only=True)
class Unusable:
    """A file that holds no case."""

    name: str
    file: Path
    findings: tuple[Finding, ...]


def case_files(place: Path) -> list[Path]:
    """The files of a folder and those below it that may hold cases, by name; or `place` itself,
    when it is a file. Raises OSError."""
    if not place.is_dir():
        place.stat()
        return [place]
    found = [path for path in place.rglob("*") if path.suffix in SUFFIXES and path.is_file()]
    hidden = [path for path in found if any(p[0] == "." for p in path.relative_to(place).parts)]
    return sorted(set(found).difference(hidden))


def read_cases(path: Path, name: str) -> list[Case | Unusable]:
    """Blocking: reads the file."""
    body, unreadable = read_file(path)
    if unreadable is not None:
        return [Unusable(name=name, file=path, findings=(unreadable,))]
    return parse_cases(body, path, name)


def parse_cases(body: bytes, path: Path, name: str) -> list[Case | Unusable]:
    """The file's one case, called `name`; or its several, called `name/…`."""
    located, findings = locate(body, str(path), FILE_SECTIONS)
    if located is None or findings:
        return [Unusable(name=name, file=path, findings=tuple(findings))]
    if "cases" not in located.data:
        return [_case(located, path, name)]
    inside = located.data["cases"]
    parts = inside if isinstance(inside, dict) else {}
    faults = tuple(_around(located, parts))
    # Each by itself: a fault of one must not keep the others from running.
    return [
        *([Unusable(name=name, file=path, findings=faults)] if faults else []),
        *(
            _case(_below(located, key, part), path, f"{name}/{key}")
            for key, part in parts.items()
            if isinstance(part, dict)
        ),
    ]


def _around(located: Located, parts: Mapping[str, Any]) -> Iterator[Finding]:
    known = CasesFile.model_fields
    for key in located.data:
        if key not in known:
            fix = f"known here: {', '.join(known)}"
            yield located.finding((key,), f"the key `{plain(key)}` is unknown beside `cases`", fix)
    for key, part in parts.items():
        if not isinstance(part, dict):
            fix = "write alert, verdicts and expect below it"
            yield located.finding(("cases", key), "it must be a mapping", fix)
    if not parts:
        yield located.finding(("cases",), "`cases` holds none", "write `name:` lines below it")


def _below(located: Located, key: str, part: dict[str, Any]) -> Located:
    """One case of several, as if it had a file of its own."""
    at = ("cases", key)
    positions = {path[2:]: place for path, place in located.positions.items() if path[:2] == at}
    return Located(file=located.file, data=part, positions=positions, sections=CASE_SECTIONS)


def _case(located: Located, path: Path, name: str) -> Case | Unusable:
    shaped = shape(located, CaseFile, CASE_ENTRIES)
    findings = shaped.findings
    if shaped.complete:
        findings += _parts(shaped.file, located)
    content = None if findings else _content(shaped.file, located, findings)
    if content is None:
        findings.sort(key=lambda finding: finding.line)
        return Unusable(name=name, file=path, findings=tuple(findings))
    return Case(
        name=name,
        file=path,
        about=shaped.file.about,
        expect=shaped.file.expect,
        content=content,
        located=located,
    )


def _parts(file: CaseFile, located: Located) -> Iterator[Finding]:
    if (file.verdicts is None) == (file.answers is None):
        both = file.verdicts is not None
        yield located.finding(
            ("answers",) if both else (),
            "`verdicts` and `answers` are both given" if both else "nothing is known to the case",
            "keep one of them"
            if both
            else "add `verdicts`: what the nodes say; or record it with `triage test add`",
        )
    stated = located.data["expect"]
    for part, value in stated.items():
        if value is None:
            yield located.finding(
                ("expect", part), f"`{plain(part)}` is empty", "write [] for none, or remove it"
            )
    if not stated:
        yield located.finding(
            ("expect",), "nothing is expected", "add outcome, verdicts, root_causes or actions"
        )
    if file.answers is not None and file.alert.fired_at is None:
        yield located.finding(
            ("alert",), "`fired_at` is missing", "recorded answers are about that time"
        )


# --- what the file says -----------------------------------------------------------------------


def _content(
    file: CaseFile, located: Located, findings: list[Finding]
) -> WalkOnly | Recorded | None:
    """None when a finding was added."""
    alert = file.alert
    if file.verdicts is not None:
        return WalkOnly(
            alarm=alert.alarm, entity=alert.entity, site=alert.site, verdicts=file.verdicts
        )
    bodies: dict[str, bytes] = {}
    failures: dict[str, Failure] = {}
    for index, entry in enumerate(file.answers or ()):
        place: YamlPath = ("answers", index)
        digest = sha256_hex(canonical_json(entry.query))
        forms = [form for form in _ANSWER_FORMS if getattr(entry, form) is not None]
        if len(forms) != 1:
            problem = f"has {' and '.join(forms) or 'no answer'}"
            findings.append(
                located.finding(place, problem, "give one of `answer`, `packed` and `failure`")
            )
        elif digest in bodies or digest in failures:
            findings.append(located.finding(place, "this query is given twice", "remove one"))
        elif entry.failure is not None:
            failures[digest] = Failure(reason=entry.failure.reason, detail=entry.failure.detail)
        elif (body := _body(entry)) is None:
            findings.append(
                located.finding((*place, "packed"), "cannot be unpacked", "record the case anew")
            )
        else:
            bodies[digest] = body
    if findings:
        return None
    return Recorded(alert=_alert(alert), bodies=bodies, failures=failures)


def _body(entry: AnswerEntry) -> bytes | None:
    if entry.answer is not None:
        return entry.answer.encode()
    try:
        packed = b64decode("".join((entry.packed or "").split()), validate=True)
        unpacking = zlib.decompressobj()
        body = unpacking.decompress(packed, MAX_ANSWER)
    except (binascii.Error, ValueError, zlib.error):
        return None
    return body if unpacking.eof else None


def _alert(entry: AlertEntry) -> Alert:
    fired_at = entry.fired_at
    assert fired_at is not None, "a recorded case without it was refused"
    return Alert(
        alert_id=AlertId(entry.id),
        integration=entry.integration,
        tenant=entry.tenant,
        fingerprint=entry.fingerprint,
        alarm=entry.alarm,
        site=entry.site,
        entity=entry.entity,
        severity=Severity(entry.severity),
        fired_at=fired_at,
        accepted_at=entry.accepted_at or fired_at,
        labels=entry.labels,
        annotations=entry.annotations,
        resolved_at=entry.resolved_at,
        unmatched_resolve=entry.unmatched_resolve,
    )


# --- against the procedure --------------------------------------------------------------------


def check_case(case: Case, sop: Sop, sites: Sites) -> list[Finding]:
    """Names that mean nothing. A recorded case may name what the SOP no longer has: it fails."""
    if isinstance(case.content, Recorded):
        return []
    return list(_unknown_names(case, case.content, sop, sites))


def _unknown_names(case: Case, given: WalkOnly, sop: Sop, sites: Sites) -> Iterator[Finding]:
    nearest, located = Nearest(), case.located
    if sop.entry(given.alarm) is None:
        yield located.finding(
            ("alert", "alarm"),
            f"the SOP has no alarm `{plain(given.alarm)}`",
            nearest(given.alarm, [*sop.alarms, *sop.aliases]) or "name one that it routes",
        )
    if given.site and sites.profiles and not sites.profile(given.site).known:
        yield located.finding(
            ("alert", "site"),
            f"`{plain(given.site)}` is not in the sites file",
            nearest(given.site, sites.profiles) or "name one of its sites, or leave `site` out",
        )
    expect = case.expect
    nodes: list[tuple[YamlPath, str]] = [(("verdicts", node), node) for node in given.verdicts]
    nodes += [(("expect", "verdicts", node), node) for node in expect.verdicts or {}]
    nodes += [
        (("expect", "root_causes", index), cause.node)
        for index, cause in enumerate(expect.root_causes or ())
    ]
    for path, node in nodes:
        if node not in sop.nodes:
            fix = nearest(node, sop.nodes) or "name a node of the SOP"
            yield located.finding(path, f"the SOP has no node `{plain(node)}`", fix)
    for part in ("actions", "dropped_actions"):
        for index, action in enumerate(getattr(expect, part) or ()):
            if action.action not in sop.actions:
                yield located.finding(
                    ("expect", part, index),
                    f"the SOP has no action `{plain(action.action)}`",
                    nearest(action.action, sop.actions) or "name an action of the SOP",
                )
