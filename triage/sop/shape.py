"""A located file against its model, with every fault in plain words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, Generic, TypeVar

from pydantic import TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from triage.errors import Finding
from triage.sop.fields import ID_PATTERN, NAME_PATTERN, FileModel
from triage.sop.located import Located, YamlPath, plain
from triage.sop.nearest import Nearest

ModelT = TypeVar("ModelT", bound=FileModel)

ENTRIES_AT_ONCE = 200  # of a section: about 2 ms

ANY = "*"
"""In the paths of `entries`: any key."""

Entries = Mapping[YamlPath, type[FileModel]]
"""Which model describes the mapping at a path."""

_KEY_FIXES = {
    "true": "on_true",
    "yes": "on_true",
    "on": "on_true",
    "false": "on_false",
    "no": "on_false",
    "off": "on_false",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Shaped(Generic[ModelT]):
    """`file` holds what passed; `broken` the (section, name) of entries left out of it, and
    `complete` is False when anything was."""

    file: ModelT
    broken: frozenset[YamlPath]
    complete: bool
    findings: list[Finding]


def shape(located: Located, model: type[ModelT], entries: Entries) -> Shaped[ModelT]:
    """Validate; on faults keep every sound entry, so that the rest of the checks can go on."""
    try:
        file = _validated(located.data, model, located.sections)
    except ValidationError as error:
        details = error.errors(include_url=False, include_context=True)
    else:
        return Shaped(file=file, broken=frozenset(), complete=True, findings=[])
    nearest = Nearest()
    findings = [_finding(located, detail, entries, nearest) for detail in details]
    broken = frozenset(_path(detail)[:2] for detail in details)
    return Shaped(
        file=_salvaged(located.data, model, broken, located.sections),
        broken=broken,
        complete=False,
        findings=findings,
    )


def _validated(data: dict[str, Any], model: type[ModelT], sections: Mapping[str, str]) -> ModelT:
    """As `model_validate`, with large sections in pieces: pydantic keeps the interpreter's lock
    until it is done, and 4,400 nodes at once would stop the event loop for 40 ms. Raises
    ValidationError for the whole."""
    large = {
        name: entries
        for name in sections
        if isinstance(entries := data.get(name), dict) and len(entries) > ENTRIES_AT_ONCE
    }
    if not large:
        return model.model_validate(data)
    pieces = {name: _pieces(entries) for name, entries in large.items()}
    try:
        file = model.model_validate({**data, **{name: next(p) for name, p in pieces.items()}})
        whole: dict[str, Any] = {}
        for name, rest in pieces.items():
            adapter: TypeAdapter[Any] = TypeAdapter(model.model_fields[name].rebuild_annotation())
            whole[name] = dict(getattr(file, name))
            for piece in rest:
                whole[name].update(adapter.validate_python(piece, strict=True))
    except ValidationError:
        return model.model_validate(data)  # for every fault, at its place in the whole
    return file.model_copy(update=whole)


def _pieces(entries: dict[str, Any]) -> Iterator[dict[str, Any]]:
    items = iter(entries.items())
    while piece := dict(islice(items, ENTRIES_AT_ONCE)):
        yield piece


def _salvaged(
    data: dict[str, Any],
    model: type[ModelT],
    broken: frozenset[YamlPath],
    sections: Mapping[str, str],
) -> ModelT:
    values: dict[str, Any] = {}
    for name, field in model.model_fields.items():
        raw = data.get(name)
        adapter: TypeAdapter[Any] = TypeAdapter(field.rebuild_annotation())
        if name in sections and isinstance(raw, dict):
            sound = {key: value for key, value in raw.items() if (name, key) not in broken}
            values[name] = adapter.validate_python(sound, strict=True) if sound else {}
        elif name in sections:
            values[name] = {}
        elif raw is not None and not any(path[0] == name for path in broken):
            values[name] = adapter.validate_python(raw, strict=True)
        else:
            values[name] = field.get_default(call_default_factory=True)
    return model.model_construct(**values)


def _path(detail: ErrorDetails) -> YamlPath:
    """The fault's place in the file; pydantic marks a bad key by one more part, `[key]`."""
    loc = detail["loc"]
    return loc[:-1] if loc and loc[-1] == "[key]" else loc


def _finding(located: Located, detail: ErrorDetails, entries: Entries, nearest: Nearest) -> Finding:
    path = _path(detail)
    if path != detail["loc"]:
        return located.finding(path, *_bad_key(path, detail))
    key = str(path[-1]) if path else ""
    match detail["type"]:
        case "missing":
            described = _fields(path[:-1], entries).get(key, "")
            return located.finding(
                path, f"`{key}` is missing", f"add `{key}`: {described}" if described else ""
            )
        case "extra_forbidden":
            return located.finding(path, *_unknown_key(path, entries, nearest))
        case _:
            problem, fix = _bad_value(detail)
            return located.finding(path, f"{_called(path, located)} {problem}", fix)


def _called(path: YamlPath, located: Located) -> str:
    """What the value at `path` is called in a message that names its entry already."""
    if len(path) == 2 and path[0] in located.sections:  # noqa: PLR2004 - section and name
        return "it"
    if path and isinstance(path[-1], int):
        return f"item {path[-1] + 1} of `{plain(str(path[-2]))}`"
    return f"`{plain(str(path[-1]))}`" if path else "the file"


def _bad_key(path: YamlPath, detail: ErrorDetails) -> tuple[str, str]:
    problem, fix = _bad_value(detail)
    if detail["type"] == "string_pattern_mismatch":
        problem = "is not allowed"
    return f"the name `{plain(str(path[-1]))}` {problem}", fix


def _unknown_key(path: YamlPath, entries: Entries, nearest: Nearest) -> tuple[str, str]:
    key = str(path[-1])
    known = _fields(path[:-1], entries)
    meant = _KEY_FIXES.get(key.lower(), "")
    if meant in known:
        fix = f"write `{meant}`"
    else:
        fix = nearest(key, known) or f"known here: {', '.join(known)}"
    return f"the key `{plain(key)}` is unknown", fix


def _fields(path: YamlPath, entries: Entries) -> dict[str, str]:
    """The keys that the mapping at `path` may have, with their descriptions."""
    for pattern, model in entries.items():
        if len(pattern) == len(path) and all(
            want in (ANY, part) for want, part in zip(pattern, path, strict=True)
        ):
            return {
                field.alias or name: field.description or ""
                for name, field in model.model_fields.items()
            }
    return {}


_WANTED = {
    "string_type": ("text", "put it in quotes"),
    "int_type": ("a whole number", "write digits without quotes"),
    "int_from_float": ("a whole number", "write it without a fraction"),
    "float_type": ("a number", "write digits without quotes"),
    "bool_type": ("`true` or `false`", "write one of the two, without quotes"),
    "list_type": ("a list", "write `[a, b]`, or one `- a` a line"),
    "dict_type": ("a mapping", "write `key: value` lines below it"),
    "model_type": ("a mapping", "write `key: value` lines below it"),
    "scalar_type": ("a number, text, `true` or `false`", "write one value"),
}

_OUT_OF_BOUNDS = {
    "literal_error": ("must be {expected}, not {value}", "choose one of these"),
    "string_pattern_mismatch": ("may not be {value}", "{naming}"),
    "string_too_short": ("is empty", "write something, or remove it"),
    "too_short": ("is empty", "write at least one entry"),
    "string_too_long": ("is longer than {max_length} characters", "shorten it"),
    "greater_than_equal": ("must be at least {ge}, not {value}", "raise it"),
    "less_than_equal": ("must be at most {le}, not {value}", "lower it"),
}

_NAMING = {
    ID_PATTERN: "begin with a letter; letters, digits, `_`, `.` and `-` may follow, 128 at most",
    NAME_PATTERN: "write one line, with no blank at either end",
}


def _bad_value(detail: ErrorDetails) -> tuple[str, str]:
    """What is wrong with the value, and the fix."""
    value = detail["input"]
    if (wanted := _WANTED.get(detail["type"])) is not None:
        if value is None:
            return f"is empty, but must be {wanted[0]}", "write a value, or remove the line"
        return f"must be {wanted[0]}, not {_described(value)}", wanted[1]
    if (bound := _OUT_OF_BOUNDS.get(detail["type"])) is not None:
        context = detail.get("ctx", {})
        words = {
            **context,
            "value": _described(value),
            "expected": str(context.get("expected", "")).replace("'", ""),
            "naming": _NAMING.get(str(context.get("pattern", "")), ""),
        }
        return bound[0].format_map(words), bound[1].format_map(words)
    return f"is not accepted: {detail['msg']}", "see the schema of this file"


def _described(value: object) -> str:
    match value:
        case bool():
            return "`true`" if value else "`false`"
        case int() | float():
            return f"the number {value}"
        case str():
            return f"`{plain(value)}`"
        case list():
            return "a list"
        case dict():
            return "a mapping"
        case _:
            return "empty"
