"""`tool.toml`: what is known of every version of one node's tool, and which one is active."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import tomli
from pydantic import (
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    StrictBool,
    StrictInt,
    StrictStr,
    ValidationError,
)

from triage.errors import Finding, InvalidFiles
from triage.library.files import MANIFEST_LIMIT, MANIFEST_NAME, Unreadable, read_bounded

if TYPE_CHECKING:
    from pathlib import Path

MAX_VERSION = 1_000_000
MAX_NAME = 200  # characters


class VersionStatus(StrEnum):
    CANDIDATE = "candidate"
    SHADOW = "shadow"
    ACTIVE = "active"
    DEPRECATED = "deprecated"
    RETIRED = "retired"


class Verb(StrEnum):
    ADD = "add"
    PROMOTE = "promote"
    ROLLBACK = "rollback"
    DEPRECATE = "deprecate"
    RETIRE = "retire"
    SHADOW = "shadow"
    SHADOW_STOP = "shadow_stop"
    RELEASE = "release"


_VersionNumber = Annotated[StrictInt, Field(ge=1, le=MAX_VERSION)]
_Digest = Annotated[StrictStr, Field(pattern=r"^[0-9a-f]{64}$")]
_Name = Annotated[StrictStr, Field(min_length=1, max_length=MAX_NAME)]
_Count = Annotated[StrictInt, Field(ge=0)]


class ManifestVersion(BaseModel):
    """One `[[versions]]` table. `sha256` is of the bytes of `v<version>.py`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: _VersionNumber
    sha256: _Digest
    sop_text_sha256: _Digest
    status: VersionStatus
    maker: _Name
    made_at: AwareDatetime
    approver: StrictStr = ""
    approved_at: AwareDatetime | None = None
    approved_sha256: Annotated[StrictStr, Field(pattern=r"^([0-9a-f]{64})?$")] = ""
    """What was approved, empty where the approval is older than this field."""
    dynamic: StrictBool = False
    reads_parents: tuple[_Name, ...] = ()
    train_passed: _Count = 0
    train_total: _Count = 0
    heldout_passed: _Count = 0
    heldout_total: _Count = 0
    max_queries: _Count = 0
    """The most that it asked in any case; 0 for one that was never tried."""
    gap: StrictStr = ""
    """The gap that it was made for, empty for none."""


class Act(BaseModel):
    """One line of `history`: who did what to which version."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    at: AwareDatetime
    verb: Verb
    version: _VersionNumber
    by: _Name
    note: StrictStr = ""


class Manifest(BaseModel):
    """One `tool.toml`. `history` is oldest first; `active` and `shadow` name a version."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    node: _Name
    active: _VersionNumber | None = None
    shadow: _VersionNumber | None = None
    history: tuple[Act, ...] = ()
    versions: tuple[ManifestVersion, ...] = ()

    def version(self, number: int) -> ManifestVersion | None:
        return next((entry for entry in self.versions if entry.version == number), None)

    @property
    def active_version(self) -> ManifestVersion | None:
        return None if self.active is None else self.version(self.active)


def manifest_path(root: Path, node: str) -> Path:
    return root / node / MANIFEST_NAME


def source_path(root: Path, node: str, version: int) -> Path:
    return root / node / f"v{version}.py"


def read_manifest(root: Path, node: str) -> tuple[Manifest, bytes]:
    """The manifest of `node` and its bytes. Raises Unreadable or InvalidFiles."""
    body = read_manifest_bytes(root, node)
    return parse_manifest(body, file=manifest_path(root, node), node=node), body


def read_manifest_bytes(root: Path, node: str) -> bytes:
    """Raises Unreadable."""
    return read_bounded(manifest_path(root, node), root=root, limit=MANIFEST_LIMIT)


def parse_manifest(body: bytes, *, file: Path, node: str) -> Manifest:
    """Raises InvalidFiles with every fault of the manifest's shape, or else of its sense."""
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError as error:
        line = body.count(b"\n", 0, error.start) + 1
        raise InvalidFiles(
            [_fault(file, node, line, "is not UTF-8", "save the file as UTF-8")]
        ) from None
    try:
        # Compiled, and so three times as fast as the standard library's: a large library has
        # thousands of manifests, and the daemon five seconds to start.
        document = tomli.loads(text)
    except RecursionError:
        raise InvalidFiles(
            [_fault(file, node, 0, "is nested too deeply", "restore it from history")]
        ) from None
    except ValueError as error:
        found = re.search(r"at line (\d+)", str(error))
        line = int(found[1]) if found else 0
        raise InvalidFiles(
            [_fault(file, node, line, f"is not TOML: {error}", "mend the syntax")]
        ) from None
    try:
        manifest = Manifest.model_validate(document)
    except ValidationError as error:
        raise InvalidFiles(
            [
                _fault(
                    file,
                    node,
                    _line_of(text, fault["loc"]),
                    f"{_dotted(fault['loc'])}: {fault['msg']}",
                    "see `triage tools show` for the fields of a manifest"
                    if fault["type"] == "extra_forbidden"
                    else "correct the value",
                )
                for fault in error.errors(include_url=False, include_input=False)
            ]
        ) from None
    faults = [
        _fault(file, node, _line_of(text, loc), problem, fix)
        for loc, problem, fix in _contradictions(manifest, node)
    ]
    if faults:
        raise InvalidFiles(faults)
    return manifest


def unreadable(error: Unreadable, node: str) -> Finding:
    """The finding for a file that could not be read."""
    return Finding(file=str(error.path), where=node, problem=error.problem, fix=error.fix)


_Loc = Sequence[str | int]


def _contradictions(manifest: Manifest, node: str) -> Iterator[tuple[_Loc, str, str]]:
    if manifest.node != node:
        yield (
            ("node",),
            f"the manifest is of {manifest.node!r}, the folder of {node!r}",
            "give the folder and the manifest the same name",
        )
    active = manifest.active if manifest.active is not None else "not set"
    shadow = manifest.shadow if manifest.shadow is not None else "not set"
    seen: set[int] = set()
    for index, entry in enumerate(manifest.versions):
        here = ("versions", index, "status")
        if entry.version in seen:
            yield (
                ("versions", index, "version"),
                f"version {entry.version} is there twice",
                "remove one of the two",
            )
        seen.add(entry.version)
        if (entry.status is VersionStatus.ACTIVE) != (entry.version == manifest.active):
            yield (
                here,
                f"version {entry.version} is {entry.status.value!r}, but active is {active}",
                "change versions with `triage tools promote` and `rollback` only",
            )
        if (entry.status is VersionStatus.SHADOW) != (entry.version == manifest.shadow):
            yield (
                here,
                f"version {entry.version} is {entry.status.value!r}, but shadow is {shadow}",
                "make the two agree",
            )
        if entry.status is VersionStatus.ACTIVE and not (entry.approver and entry.approved_at):
            yield (
                here,
                f"version {entry.version} is active and nobody approved it",
                "approve it with `triage tools promote`",
            )
        elif entry.status is VersionStatus.ACTIVE and entry.approved_sha256 not in (
            "",
            entry.sha256,
        ):
            yield (
                here,
                f"version {entry.version} is active, and {entry.approver} approved another source",
                "restore the file and its sha256; then add the new source as a new version",
            )
        for kind in ("train", "heldout"):
            if getattr(entry, f"{kind}_passed") > getattr(entry, f"{kind}_total"):
                yield (
                    ("versions", index, f"{kind}_passed"),
                    f"version {entry.version} passed more {kind} cases than there were",
                    "correct the counts",
                )
    for key, number in (("active", manifest.active), ("shadow", manifest.shadow)):
        if number is not None and number not in seen:
            yield (
                (key,),
                f"{key} is version {number}, which is not among the versions",
                f"name one of {sorted(seen)}" if seen else "remove the line",
            )


def _fault(file: Path, node: str, line: int, problem: str, fix: str) -> Finding:
    return Finding(file=str(file), line=line, where=node, problem=problem, fix=fix)


def _dotted(loc: Sequence[str | int]) -> str:
    return ".".join(str(part) for part in loc) or "manifest"


def _line_of(text: str, loc: Sequence[str | int]) -> int:
    """Where a value most likely stands, 0 when it cannot be told; for messages only."""
    lines = text.splitlines()
    headers = [i for i, line in enumerate(lines) if re.match(r"\s*\[\[?\s*\w", line)]
    start, end = 0, headers[0] if headers else len(lines)
    key = next((part for part in reversed(loc) if isinstance(part, str)), "")
    match list(loc):
        case ["versions" | "history" as name, int(index), *_]:
            tables = [i for i in headers if re.match(rf"\s*\[\[\s*{name}\s*\]\]", lines[i])]
            if not tables:
                return _array_line(lines, name, index)
            start = tables[min(index, len(tables) - 1)]
            end = next((i for i in headers if i > start), len(lines))
        case _:
            pass
    for number in range(start, end):
        if key and re.match(rf"\s*{re.escape(key)}\s*=", lines[number]):
            return number + 1
    return start + 1 if start else 0


def _array_line(lines: Sequence[str], name: str, index: int) -> int:
    """The line of the `index`-th inline table of an array that has one a line."""
    seen = -1
    inside = False
    for number, line in enumerate(lines):
        inside = inside or re.match(rf"\s*{name}\s*=", line) is not None
        seen += inside and "{" in line
        if seen == index:
            return number + 1
    return 0
