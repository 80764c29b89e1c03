"""What is wrong with settings, where it is written, and what to do."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Annotated, Any, Union, get_args, get_origin
from urllib.parse import urlsplit

from pydantic import BaseModel, ValidationError

from triage.errors import Finding
from triage.sop.nearest import Nearest

KeyPath = tuple[str | int, ...]

TAGGED = frozenset({"sources", "sinks"})
"""Sections whose entries are a union by `type`; pydantic puts the type into an error's place."""

LITERAL_SECRETS = frozenset(
    {"token", "bearer_token", "password", "secret", "secrets", "api_key", "authorization"}
)


class Places:
    """Knows the line of each key of a TOML file, and which keys the environment gave instead.

    Lines are found by reading the text as lines, which a multi-line string that looks like keys
    can mislead: they are for people, nothing depends on them.
    """

    def __init__(self, file: str, text: str, overridden: Collection[tuple[str, ...]]) -> None:
        self._file = file
        self._overridden = overridden
        self._lines = dict(_lines(text))

    def finding(self, at: KeyPath, problem: str, fix: str) -> Finding:
        where = _dotted(at)
        if any(at[: len(path)] == path for path in self._overridden):
            file = f"environment variable {variable_of(at)}"
            return Finding(file=file, where=where, problem=problem, fix=fix)
        return Finding(file=self._file, line=self._line(at), where=where, problem=problem, fix=fix)

    def _line(self, at: KeyPath) -> int:
        for end in range(len(at), 0, -1):
            if (line := self._lines.get(at[:end])) is not None:
                return line
        return 0


def explain(model: type[BaseModel], error: ValidationError, places: Places) -> list[Finding]:
    """One finding a fault. No value is shown: it may be a secret in the wrong place."""
    nearest = Nearest()
    findings = []
    for fault in error.errors(include_url=False, include_input=False):
        raw: KeyPath = tuple(fault["loc"])
        at = _without_tag(raw)
        key = str(at[-1]) if at else ""
        if fault["type"] == "extra_forbidden":
            known = _keys(model, raw[:-1])
            advice = nearest(key, known)
            problem, fix = "there is no such key", advice or f"the keys are {', '.join(known)}"
        elif fault["type"] == "union_tag_not_found":
            at = (*at, "type")
            problem, fix = "is missing", "say which type it is"
        elif fault["type"] == "union_tag_invalid":
            at = (*at, "type")
            problem, fix = "is no such type", f"use one of {fault['ctx']['expected_tags']}"
        elif fault["type"] == "missing":
            problem, fix = "is missing", f"add {key} = …"
        elif key == "[key]":
            at = at[:-1]
            problem = "is not a name"
            fix = "begin with a letter; letters, digits, '_', '.' and '-' may follow, 64 in all"
        else:
            problem = fault["msg"].removeprefix("Value error, ")
            problem, _, fix = problem.partition(": ") if ": " in problem else (problem, "", "")
        findings.append(places.finding(at, problem[:1].lower() + problem[1:], fix))
    return findings


def literal_secrets(document: Mapping[str, Any], places: Places) -> list[Finding]:
    """Secrets written into the file itself, which copies, backups and repositories then hold."""
    findings = []
    for at, value in _leaves(document, ()):
        key = str(at[-1])
        if key in LITERAL_SECRETS:
            findings.append(
                places.finding(
                    at,
                    "a secret must not stand in the file",
                    f"take it out, change it, and name where it is with {_origins(at)}",
                )
            )
        elif key.endswith("url") and isinstance(value, str) and _has_password(value):
            findings.append(
                places.finding(
                    at,
                    "a password must not stand in the file",
                    f"give the whole URL as the environment variable {variable_of(at)}",
                )
            )
    return findings


def variable_of(at: KeyPath) -> str:
    """The environment variable that a key can be given by."""
    return "TRIAGE_" + "__".join(str(step) for step in at).upper()


def _origins(at: KeyPath) -> str:
    return "env or file" if at[:2] == ("http", "tokens") else f"{at[-1]}_env or {at[-1]}_file"


def _has_password(url: str) -> bool:
    try:
        return urlsplit(url).password is not None
    except ValueError:
        return False


def _leaves(tree: object, at: KeyPath) -> Iterator[tuple[KeyPath, object]]:
    if isinstance(tree, Mapping):
        for key, value in tree.items():
            # `[intake.<format>]` has tables whose keys are the sender's words, not ours.
            if at[2:] != ("severities",):
                yield from _leaves(value, (*at, key))
    elif isinstance(tree, list) and any(isinstance(entry, Mapping) for entry in tree):
        for index, entry in enumerate(tree):
            yield from _leaves(entry, (*at, index))
    else:
        yield at, tree


def _without_tag(raw: KeyPath) -> KeyPath:
    """`sources.metrics.prometheus.url` without the type that pydantic adds."""
    if len(raw) > 3 and raw[0] in TAGGED and raw[2] != "[key]":  # noqa: PLR2004 - section, name, type
        return (*raw[:2], *raw[3:])
    if len(raw) == 3 and raw[0] in TAGGED and raw[2] in _TYPES:  # noqa: PLR2004 - likewise
        return raw[:2]
    return raw


_TYPES = frozenset({"prometheus", "sql", "mcp", "jsonl", "webhook"})


def _keys(model: type[BaseModel], raw: KeyPath) -> list[str]:
    """The keys that the table at `raw` (with types) can have."""
    at: Any = model
    for step in raw:
        at = _below(at, step)
    return list(at.model_fields) if isinstance(at, type) and issubclass(at, BaseModel) else []


def _below(at: Any, step: str | int) -> Any:
    if isinstance(at, type) and issubclass(at, BaseModel):
        field = at.model_fields.get(str(step))
        return field.annotation if field is not None else None
    if get_origin(at) is Annotated:
        return _below(get_args(at)[0], step)
    arguments: Sequence[Any] = get_args(at)
    if get_origin(at) in {dict, tuple}:
        return arguments[1] if get_origin(at) is dict else arguments[0]
    if get_origin(at) is Union or arguments:
        for member in arguments:
            tag = getattr(member, "model_fields", {}).get("type")
            if tag is not None and step in get_args(tag.annotation):
                return member
    return None


def _dotted(at: KeyPath) -> str:
    return ".".join(str(step) for step in at)


_TABLE = re.compile(r"^\s*(\[\[?)([^\[\]]+)\]\]?\s*(?:#.*)?$")
_KEY = re.compile(r"^\s*((?:[A-Za-z0-9_-]+|\"[^\"]*\"|'[^']*')(?:\s*\.\s*[^\s=.]+)*)\s*=")


def _lines(text: str) -> Iterator[tuple[KeyPath, int]]:
    """Places with their lines, 1-based, the last line of each place last."""
    table: KeyPath = ()
    counts: dict[KeyPath, int] = {}
    for number, line in enumerate(text.split("\n"), start=1):
        if (header := _TABLE.match(line)) is not None:
            table = _steps(header[2])
            if header[1] == "[[":
                counts[table] = counts.get(table, -1) + 1
                table = (*table, counts[table])
            yield table, number
        elif (key := _KEY.match(line)) is not None:
            yield (*table, *_steps(key[1])), number


def _steps(dotted: str) -> KeyPath:
    return tuple(step.strip().strip("\"'") for step in dotted.split("."))
