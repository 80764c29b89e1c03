"""YAML events as plain data; scalars as the core schema of YAML 1.2 reads them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import isfinite
from typing import Any

import yaml

from triage.errors import Finding
from triage.sop.located import YamlPath, entry_name, plain

MAX_DEPTH = 32  # collections inside one another
MAX_EVENTS = 500_000  # five times what a procedure of 4,400 nodes has
INTEGER_DIGITS = 24  # more than 64 bits need in octal, 0o included

CONTROL = re.compile(
    "[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]"
)
_INT = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_WORDS: dict[str, bool | None] = {
    "": None,
    "~": None,
    "null": None,
    "Null": None,
    "NULL": None,
    "true": True,
    "True": True,
    "TRUE": True,
    "false": False,
    "False": False,
    "FALSE": False,
}
_KEY_FIXES = {True: "write `on_true`", False: "write `on_false`", None: "write `on_no_data`"}


class Refused(Exception):
    """Reading cannot go on. Never leaves this package."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(str(finding))
        self.finding = finding


def too_deep(file: str, line: int) -> Finding:
    return Finding(
        file=file,
        line=line,
        problem=f"is nested more than {MAX_DEPTH} deep",
        fix="flatten it; nothing in this format is that deep",
    )


@dataclass(slots=True, kw_only=True)
class _Frame:
    """A collection that is being read. `key` is set between a key and its value; `dropping`: that
    value goes nowhere, because the key was refused; `shadowed`: so does this whole collection."""

    container: Any
    path: YamlPath
    shadowed: bool
    lines: dict[str, int] = field(default_factory=dict)
    key: str | None = None
    dropping: bool = False


@dataclass(slots=True, kw_only=True)
class EventReader:
    file: str
    sections: Mapping[str, str]
    root: Any = None
    positions: dict[YamlPath, tuple[int, int]] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    stack: list[_Frame] = field(default_factory=list)

    def read(self, events: Iterable[yaml.Event]) -> None:
        documents = 0
        for count, event in enumerate(events):
            if count >= MAX_EVENTS:
                raise self.refused(event, f"has more than {MAX_EVENTS} parts", "split the file")
            match event:
                case yaml.ScalarEvent():
                    self.scalar(event)
                case yaml.MappingStartEvent() | yaml.SequenceStartEvent():
                    self.refuse_extras(event)
                    self.enter(event)
                case yaml.MappingEndEvent() | yaml.SequenceEndEvent():
                    self.stack.pop()
                case yaml.AliasEvent():
                    raise self.refused(
                        event,
                        f"the alias `*{plain(event.anchor or '')}` is not allowed",
                        "write the value out",
                    )
                case yaml.DocumentStartEvent():
                    documents += 1
                    if documents > 1:
                        raise self.refused(
                            event, "a second document begins here", "keep one document a file"
                        )

    def refused(self, event: yaml.Event, problem: str, fix: str) -> Refused:
        return Refused(self.finding(event, problem, fix))

    def finding(self, event: yaml.Event, problem: str, fix: str) -> Finding:
        path = self.stack[-1].path if self.stack else ()
        if self.stack and isinstance(self.stack[-1].key, str):
            path = (*path, self.stack[-1].key)
        return Finding(
            file=self.file,
            line=_position(event)[0],
            where=entry_name(path, self.sections),
            problem=problem,
            fix=fix,
        )

    def refuse_extras(
        self, event: yaml.ScalarEvent | yaml.MappingStartEvent | yaml.SequenceStartEvent
    ) -> None:
        if event.anchor is not None:
            raise self.refused(
                event, f"the anchor `&{plain(event.anchor)}` is not allowed", "write the value out"
            )
        if event.tag is not None:
            raise self.refused(event, f"the tag `{plain(event.tag)}` is not allowed", "remove it")

    def enter(self, event: yaml.MappingStartEvent | yaml.SequenceStartEvent) -> None:
        if len(self.stack) >= MAX_DEPTH:
            raise Refused(too_deep(self.file, _position(event)[0]))
        container: Any = {} if isinstance(event, yaml.MappingStartEvent) else []
        if self.stack:
            parent = self.stack[-1]
            if isinstance(parent.container, dict) and parent.key is None:
                raise self.refused(
                    event, "a list or mapping is used as a key", "use a word as the key"
                )
            shadowed = parent.shadowed or parent.dropping
            path = self.place(container, event)
        else:
            self.root, path, shadowed = container, (), False
            self.positions[()] = _position(event)
        self.stack.append(_Frame(container=container, path=path, shadowed=shadowed))

    def scalar(self, event: yaml.ScalarEvent) -> None:
        if event.anchor is not None or event.tag is not None:
            self.refuse_extras(event)
        value: Any = event.value
        if event.implicit[0]:
            value, problem = _resolve(event.value)
            if problem:
                fix = "write a number in range, or put it in quotes if it is a name"
                self.findings.append(self.finding(event, problem, fix))
        elif event.style == '"' and (control := CONTROL.search(value)) is not None:
            code = ord(control.group())
            self.findings.append(
                self.finding(
                    event, f"the text holds the control character U+{code:04X}", "remove it"
                )
            )
        if not self.stack:
            self.root = value
            self.positions[()] = _position(event)
            return
        frame = self.stack[-1]
        if isinstance(frame.container, dict) and frame.key is None:
            self.begin_entry(frame, event, value)
        else:
            self.place(value, event)

    def begin_entry(self, frame: _Frame, event: yaml.ScalarEvent, key: Any) -> None:
        position = _position(event)
        frame.key = event.value
        if not isinstance(key, str) or (key == "<<" and event.implicit[0]):
            self.findings.append(self.finding(event, *_refused_key(key, event.value or "~")))
            frame.dropping = True
            return
        first = frame.lines.setdefault(key, position[0])
        frame.dropping = key in frame.container
        if frame.dropping:
            self.findings.append(self.duplicate(frame, key, first, position[0]))
        elif not frame.shadowed:
            self.positions[(*frame.path, key)] = position

    def duplicate(self, frame: _Frame, key: str, first: int, line: int) -> Finding:
        noun = self.sections.get(str(frame.path[0])) if len(frame.path) == 1 else None
        called = f"the {noun} {plain(key)}" if noun else f"the key `{plain(key)}`"
        return Finding(
            file=self.file,
            line=line,
            where=entry_name((*frame.path, key), self.sections),
            problem=f"{called} is given twice, on lines {first} and {line}",
            fix="rename one of them, or remove it",
        )

    def place(self, value: Any, event: yaml.Event) -> YamlPath:
        """Put `value` where it belongs in the innermost collection; its path."""
        frame = self.stack[-1]
        if isinstance(frame.container, list):
            path = (*frame.path, len(frame.container))
            frame.container.append(value)
            if not frame.shadowed:
                self.positions[path] = _position(event)
            return path
        key = frame.key
        assert key is not None, "the parser gives a key before its value"
        if not frame.dropping:
            frame.container[key] = value
        frame.key = None
        return (*frame.path, key)


def _position(event: yaml.Event) -> tuple[int, int]:
    """Where the event begins: line and column, both from 1."""
    mark = event.start_mark
    return (mark.line + 1, mark.column + 1) if mark is not None else (1, 1)


def _refused_key(key: Any, spelled: str) -> tuple[str, str]:
    """The problem with a key that is no text, and the fix."""
    if key is None or isinstance(key, bool):
        kind = "nothing" if key is None else "a boolean"
        return f"the key `{spelled}` is read as {kind}", _KEY_FIXES[key]
    if isinstance(key, str):
        return f"the merge key `{spelled}` is not allowed", "write the entries out"
    return f"the key `{plain(spelled)}` is read as a number", "put it in quotes"


def _resolve(text: str) -> tuple[Any, str]:
    """What a plain scalar means, and what is wrong with it (then the value is a stand-in)."""
    if text in _WORDS:
        return _WORDS[text], ""
    if text[0] not in "+-.0123456789":
        return text, ""
    if not (_INT.fullmatch(text) or _FLOAT.fullmatch(text) or _NOT_FINITE.fullmatch(text)):
        return text, ""
    return _number(text)


def _number(text: str) -> tuple[float | int, str]:
    if _INT.fullmatch(text):
        # int() takes quadratic time, and refuses thousands of digits with its own error.
        fits = len(text.lstrip("+-0")) <= INTEGER_DIGITS
        number = int(text, {"0o": 8, "0x": 16}.get(text[:2], 10)) if fits else 2**63
        if -(2**63) <= number < 2**63:
            return number, ""
        return 1, f"the number {plain(text)} does not fit 64 bits"
    if _FLOAT.fullmatch(text) and isfinite(value := float(text)):
        return value, ""
    return 1.0, f"{plain(text)} is not a finite number"
