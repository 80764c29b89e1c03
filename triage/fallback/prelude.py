"""The code that runs in the sandbox before an agent's or a tool's own."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from importlib import resources
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from triage.model.site import ParamValue, Site
from triage.model.verdict import Verdict

FILES = ("prelude_time.py.txt", "prelude_values.py.txt", "prelude.py.txt")
ZONE_DAYS = 400
"""How far from the alert the site's clocks are known in the sandbox, either side."""

STEP_S = 7 * 86_400
"""No zone changes its clocks twice in a week; the nearest two, around Ramadan, are four apart."""

OURS = frozenset({"UTC", "timedelta"})
"""Names of `datetime` that the prelude has, because the interpreter's own lack something."""
OUR_METHODS = {"fromtimestamp": "datetime_fromtimestamp", "fromisoformat": "datetime_fromisoformat"}
"""Likewise, of the class `datetime`."""
IN_TYPING = frozenset({"Callable", "Iterable", "Iterator", "Mapping", "Sequence", "Set"})
"""Names of `collections.abc`, which the interpreter does not have, that its `typing` has."""


def prelude() -> str:
    """Needs the globals that `tool_mode_inputs` makes. Reads files of this package."""
    folder = resources.files(__package__ or "triage.fallback")
    return "\n".join(folder.joinpath(name).read_text(encoding="utf-8") for name in FILES)


def tool_mode_inputs(
    *,
    site: Site,
    fired_at: datetime,
    entity: str,
    labels: Mapping[str, str],
    params: Mapping[str, ParamValue],
    parents: Mapping[str, Verdict | None],
) -> dict[str, Any]:
    """The sandbox's globals, JSON types. `parents` maps a node to its verdict, None when it
    failed; a tool's context has those that did not fail."""
    moment = fired_at.astimezone(UTC)
    return {
        "site": site.name,
        "fired_at": moment.isoformat(),
        "entity": entity,
        "labels": dict(labels),
        "params": dict(params),
        "facts": dict(site.facts),
        "units": dict(site.units),
        "zone": site.zone,
        "zone_offsets": zone_offsets(site.zone, moment),
        "parents": {
            node: verdict.value.word if verdict is not None else "failed"
            for node, verdict in parents.items()
        },
        "parent_verdicts": {
            node: _said(verdict) for node, verdict in parents.items() if verdict is not None
        },
    }


def _said(verdict: Verdict) -> dict[str, Any]:
    return {
        "value": verdict.value.word,
        "explanation": verdict.explanation,
        "subject": verdict.subject,
        "clauses": [clause._asdict() for clause in verdict.clauses],
    }


def zone_offsets(zone: str, moment: datetime, *, days: int = ZONE_DAYS) -> list[list[int]]:
    """[seconds since the epoch, offset from UTC in seconds] of each change of the zone's clocks
    from `days` before `moment` to `days` after; the first entry is the offset at the start."""
    place = ZoneInfo(zone)
    begin = int(moment.timestamp()) - days * 86_400
    end = begin + 2 * days * 86_400
    found = [[begin, _offset_s(place, begin)]]
    for at in range(begin + STEP_S, end + STEP_S, STEP_S):
        offset = _offset_s(place, at)
        if offset != found[-1][1]:
            found.append([_change(place, at - STEP_S, at), offset])
    return found


def _change(place: ZoneInfo, low: int, high: int) -> int:
    """The first second of the offset that holds at `high` and not at `low`."""
    after = _offset_s(place, high)
    while high - low > 1:
        middle = (low + high) // 2
        if _offset_s(place, middle) == after:
            high = middle
        else:
            low = middle
    return high


def _offset_s(place: ZoneInfo, at: int) -> int:
    offset = datetime.fromtimestamp(at, place).utcoffset()
    assert offset is not None
    return offset // timedelta(seconds=1)


class _Edit(NamedTuple):
    """Lines are 1-based, columns count bytes of UTF-8, as the syntax tree has them."""

    line: int
    column: int
    end_line: int
    end_column: int
    text: str


def without_imports(code: str) -> str:
    """`code` without its imports of `triage.tool_api`, whose names the prelude has, and with the
    prelude's own in place of what the interpreter's `datetime` and `collections.abc` lack.

    Line numbers stay. What is no Python comes back unchanged: whoever runs it will say so.
    """
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return code
    edits = sorted(_edits(tree), reverse=True)
    # Not splitlines(): it also parts at form feeds, where the syntax tree counts no line.
    lines = [line.encode() for line in code.replace("\r\n", "\n").replace("\r", "\n").split("\n")]
    for edit in edits:
        first, final = lines[edit.line - 1], lines[edit.end_line - 1]
        changed = first[: edit.column] + edit.text.encode() + final[edit.end_column :]
        lines[edit.line - 1 : edit.end_line] = [changed] + [b""] * (edit.end_line - edit.line)
    return b"\n".join(lines).decode()


def _edits(tree: ast.Module) -> Iterator[_Edit]:
    nodes = list(ast.walk(tree))
    # Under these names even without an import: one of an earlier run of the session still holds.
    classes, modules = {"datetime"}, {"datetime"}
    for node in nodes:
        if isinstance(node, ast.Import):
            modules |= {a.asname for a in node.names if a.asname and a.name == "datetime"}
        elif isinstance(node, ast.ImportFrom) and node.module == "datetime":
            classes |= {a.asname for a in node.names if a.asname and a.name == "datetime"}
    for node in nodes:
        text = None
        if isinstance(node, ast.ImportFrom) and not node.level:
            text = _import(node)
        elif isinstance(node, ast.Attribute):
            text = _attribute(node, classes, modules)
        if text is not None:
            assert isinstance(node, ast.ImportFrom | ast.Attribute)
            assert node.end_lineno is not None
            assert node.end_col_offset is not None
            yield _Edit(node.lineno, node.col_offset, node.end_lineno, node.end_col_offset, text)


def _import(node: ast.ImportFrom) -> str | None:
    """What stands in its place, None when it may stay."""
    match node.module:
        case "triage.tool_api":
            return _renamed(node.names)
        case "datetime":
            ours = [alias for alias in node.names if alias.name in OURS]
            others = [alias for alias in node.names if alias.name not in OURS]
            if not ours:
                return None
            kept = [f"from datetime import {_spelled(others)}"] if others else []
            renamed = _renamed(ours)
            return "; ".join([*kept, renamed] if renamed != "pass" else kept or ["pass"])
        case "collections.abc":
            known = [alias for alias in node.names if alias.name in IN_TYPING]
            return f"from typing import {_spelled(known)}" if known else "pass"
        case _:
            return None


def _spelled(names: list[ast.alias]) -> str:
    return ", ".join(f"{a.name} as {a.asname}" if a.asname else a.name for a in names)


def _renamed(names: list[ast.alias]) -> str:
    return "; ".join(f"{a.asname} = {a.name}" for a in names if a.asname) or "pass"


def _attribute(node: ast.Attribute, classes: set[str], modules: set[str]) -> str | None:
    match node.value:
        case ast.Name(id=name) if name in modules and node.attr in OURS:
            return node.attr
        case ast.Name(id=name) if name in classes:
            return OUR_METHODS.get(node.attr)
        case ast.Attribute(value=ast.Name(id=name), attr="datetime") if name in modules:
            return OUR_METHODS.get(node.attr)
        case _:
            return None
