"""YAML as plain data, with the line of everything in it.

The file is untrusted: it is read event by event, without recursion, and whatever could make a
small file large (anchors, depth) or read differently by another reader (tags, merge keys, two
documents, a key given twice) is refused with its line. Plain scalars are read as YAML 1.2's core
schema reads them, so `no`, `on` and `yes` are words.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

import yaml

from triage.errors import Finding
from triage.sop.events import CONTROL, EventReader, Refused, too_deep
from triage.sop.located import Located

MAX_BYTES = 8 * 1024 * 1024  # bytes
SEARCHED_AT_ONCE = 64 * 1024  # characters


def read_file(path: Path) -> tuple[bytes, Finding | None]:
    """The file's bytes, at most one more than MAX_BYTES; or why there are none."""
    try:
        with path.open("rb") as stream:
            return stream.read(MAX_BYTES + 1), None
    except FileNotFoundError:
        problem, fix = "there is no such file", "name an existing file, or create it"
    except PermissionError:
        problem, fix = "may not be read", "give the user that runs this read permission"
    except IsADirectoryError:
        problem, fix = "is a directory", "name the file in it"
    except (OSError, ValueError) as error:
        problem, fix = f"cannot be read: {error}", "check the path"
    return b"", Finding(file=str(path), problem=problem, fix=fix)


def locate(
    body: bytes, file: str, sections: Mapping[str, str]
) -> tuple[Located | None, list[Finding]]:
    """Read one YAML document. Without a Located, the last finding is why reading stopped."""
    reader = EventReader(file=file, sections=sections)
    try:
        text = _decoded(body, file)
        reader.read(_events(body, text, file))
        data = reader.root
        if not isinstance(data, dict):
            found = "is empty" if data is None else "must be a mapping at the top"
            raise Refused(
                Finding(
                    file=file,
                    line=reader.positions.get((), (1, 1))[0],
                    problem=f"the file {found}",
                    fix="begin with `key: value` lines",
                )
            )
    except Refused as refused:
        return None, [*reader.findings, refused.finding]
    located = Located(file=file, data=data, positions=reader.positions, sections=sections)
    return located, reader.findings


def _decoded(body: bytes, file: str) -> str:
    if len(body) > MAX_BYTES:
        raise Refused(
            Finding(
                file=file,
                problem=f"the file is larger than {MAX_BYTES // 1024 // 1024} MiB",
                fix="split the procedure, or remove what is not part of it",
            )
        )
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Refused(
            Finding(
                file=file,
                line=body.count(b"\n", 0, error.start) + 1,
                problem=f"the byte 0x{body[error.start]:02x} at offset {error.start} is not UTF-8",
                fix="save the file as UTF-8",
            )
        ) from error
    if (control := _control(text)) is not None:
        code = ord(control.group())
        name = "a NUL byte" if code == 0 else f"the control character U+{code:04X}"
        raise Refused(
            Finding(
                file=file,
                line=text.count("\n", 0, control.start()) + 1,
                problem=f"{name} is in the file",
                fix="remove it",
            )
        )
    return text


def _control(text: str) -> re.Match[str] | None:
    """The first control character. In pieces: a search keeps the interpreter's lock, and 8 MiB
    at once would stop the event loop for a tenth of a second."""
    first = 1 if text.startswith("\ufeff") else 0
    for at in range(first, len(text), SEARCHED_AT_ONCE):
        if (found := CONTROL.search(text, at, at + SEARCHED_AT_ONCE)) is not None:
            return found
    return None


def _events(body: bytes, text: str, file: str) -> Iterable[yaml.Event]:
    try:
        yield from yaml.parse(body, Loader=yaml.CSafeLoader)
    except yaml.MarkedYAMLError as error:
        raise Refused(_syntax_finding(error, text, file)) from error
    except yaml.YAMLError as error:
        raise Refused(
            Finding(file=file, problem=f"is not YAML: {error}", fix="correct the syntax")
        ) from error


def _syntax_finding(error: yaml.MarkedYAMLError, text: str, file: str) -> Finding:
    mark = error.problem_mark or error.context_mark
    line = mark.line + 1 if mark is not None else 0
    problem = str(error.problem or error.context or "cannot be read")
    if "nesting depth" in problem:
        return too_deep(file, line)
    lines = text.split("\n")
    content = lines[line - 1] if 0 < line <= len(lines) else ""
    if "\t" in content[: len(content) - len(content.lstrip())] or "tab character" in problem:
        return Finding(
            file=file,
            line=line,
            problem="a tab is used to indent",
            fix="indent with spaces; YAML allows no tabs there",
        )
    since = error.context_mark
    begun = f" ({error.context}, begun on line {since.line + 1})" if since and error.context else ""
    return Finding(
        file=file,
        line=line,
        problem=f"is not YAML: {problem}{begun}",
        fix="check indentation, colons, quotes and brackets on this line and the one before",
    )
