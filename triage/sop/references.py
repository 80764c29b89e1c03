"""Whether every name in an SOP means something, and means one thing."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Any

from triage.errors import Finding
from triage.model.site import ParamValue
from triage.sop.located import Located, YamlPath, plain
from triage.sop.nearest import Nearest
from triage.sop.procedure import WORDS, Param
from triage.sop.sop_file import ParamEntry, SopFile


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """Every id the file gives, those of entries with faults of their own included."""

    located: Located
    nearest: Nearest = field(default_factory=Nearest)

    def of(self, section: str) -> Collection[str]:
        entries = self.located.data.get(section)
        return entries.keys() if isinstance(entries, dict) else ()

    def entries(self, section: str) -> Iterator[tuple[str, dict[str, Any]]]:
        """Name and content of every mapping in a section, as the file has it."""
        for name in self.of(section):
            if isinstance(entry := self.located.data[section][name], dict):
                yield name, entry


def _listed(value: Any) -> list[tuple[int, str]]:
    """Index and name of every name in a list, or of a name that stands alone."""
    items = [value] if isinstance(value, str) else value if isinstance(value, list) else []
    return [(index, item) for index, item in enumerate(items) if isinstance(item, str)]


def check_references(file: SopFile, located: Located) -> Iterator[Finding]:
    """Every fault of a name, in no particular order. Edges and cancels are read from `located`,
    so that an entry with a fault of its own has its names checked too."""
    names = Names(located=located)
    yield from _twofold(names)
    yield from _alarms(file, names)
    yield from _aliases(file, names)
    yield from _params(file, located)
    for node_id, node in names.entries("nodes"):
        for word in WORDS:
            yield from _edges(node_id, node, word, names)
        yield from _repeated(node.get("sources"), ("nodes", node_id, "sources"), located)
    yield from _cancels(names)
    yield from _sources(file, located)


def _twofold(names: Names) -> Iterator[Finding]:
    located = names.located
    nodes = names.of("nodes")
    for action in names.of("actions"):
        if action in nodes:
            yield located.finding(
                ("actions", action),
                f"is an action here and a node on line {located.line(('nodes', action))}",
                "rename one of them",
            )


def _alarms(file: SopFile, names: Names) -> Iterator[Finding]:
    located = names.located
    nodes, actions = names.of("nodes"), names.of("actions")
    for alarm, entry in file.alarms.items():
        path: YamlPath = ("alarms", alarm)
        if not entry:
            yield located.finding(path, "the alarm enters at no node", "name its entry nodes")
        yield from _repeated(entry, path, located)
        for index, target in enumerate(entry):
            if target in nodes:
                continue
            if target in actions:
                problem, fix = "is an action", "enter at a node that leads to it"
            else:
                problem = "is not a node"
                fix = names.nearest(target, nodes) or "add it under `nodes`, or remove it"
            yield located.finding((*path, index), f"the entry `{plain(target)}` {problem}", fix)


def _aliases(file: SopFile, names: Names) -> Iterator[Finding]:
    located = names.located
    alarms, aliases = names.of("alarms"), names.of("aliases")
    for alias, alarm in file.aliases.items():
        path: YamlPath = ("aliases", alias)
        if alias in alarms:
            yield located.finding(
                path,
                f"is also an alarm, on line {located.line(('alarms', alias))}",
                "remove the alias, or the alarm",
            )
        if alarm in alarms:
            continue
        if alarm in aliases:
            problem, fix = "is an alias itself", "name the alarm"
        else:
            problem = "is not an alarm"
            fix = names.nearest(alarm, alarms) or "add it under `alarms`, or remove the alias"
        yield located.finding(path, f"`{plain(alarm)}` {problem}", fix)


def _edges(node_id: str, node: dict[str, Any], word: str, names: Names) -> Iterator[Finding]:
    located = names.located
    nodes, actions = names.of("nodes"), names.of("actions")
    path: YamlPath = ("nodes", node_id, f"on_{word}")
    yield from _repeated(node.get(f"on_{word}"), path, located)
    for index, target in _listed(node.get(f"on_{word}")):
        if target not in nodes and target not in actions:
            yield located.finding(
                (*path, index),
                f"`on_{word}` leads to `{plain(target)}`, which is no node and no action",
                names.nearest(target, [*nodes, *actions])
                or "add it under `nodes` or `actions`, or remove it here",
            )
        elif word == "failed" and node.get("kind") == "constraint" and target not in nodes:
            yield located.finding(
                (*path, index),
                f"`on_failed` leads to the action `{plain(target)}`, but a failed constraint "
                "reaches no action",
                "remove it; the decision escalates by itself",
            )


def _sources(file: SopFile, located: Located) -> Iterator[Finding]:
    for node_id, node in file.nodes.items():
        if node.kind == "observation" and not node.sources:
            yield located.finding(
                ("nodes", node_id),
                "the observation names no source",
                "add `sources: [...]`, or its tool may ask nothing",
                warning=True,
            )


def _cancels(names: Names) -> Iterator[Finding]:
    located = names.located
    nodes, actions = names.of("nodes"), names.of("actions")
    for action_id, action in names.entries("actions"):
        path: YamlPath = ("actions", action_id, "cancels")
        yield from _repeated(action.get("cancels"), path, located)
        for index, target in _listed(action.get("cancels")):
            if target == action_id:
                problem, fix = "cancels itself", "remove it from its own `cancels`"
            elif target in actions:
                continue
            elif target in nodes:
                problem, fix = f"cancels `{plain(target)}`, which is a node", "name an action"
            else:
                problem = f"cancels `{plain(target)}`, which is no action"
                fix = names.nearest(target, actions) or "add it under `actions`, or remove it here"
            yield located.finding((*path, index), problem, fix)


def _repeated(value: Any, path: YamlPath, located: Located) -> Iterator[Finding]:
    seen: set[str] = set()
    for index, target in _listed(value):
        if target in seen:
            yield located.finding(
                (*path, index),
                f"`{plain(target)}` stands twice in `{path[-1]}`",
                "remove one of them",
            )
        seen.add(target)


def _params(file: SopFile, located: Located) -> Iterator[Finding]:
    for name, entry in file.params.items():
        path: YamlPath = ("params", name)
        low, high = entry.minimum, entry.maximum
        if low is not None and high is not None and low > high:
            yield located.finding(
                (*path, "min"), f"`min` {low:g} is above `max` {high:g}", "exchange them"
            )
        elif problem := value_problem(param_of(entry), entry.value):
            yield located.finding((*path, "value"), problem, "change the value or its bounds")


def param_of(entry: ParamEntry) -> Param:
    return Param(
        value=entry.value,
        unit=entry.unit,
        minimum=entry.minimum,
        maximum=entry.maximum,
        text=entry.text,
    )


def value_problem(param: Param, value: ParamValue) -> str:
    """Why `value` cannot be the param's, or an empty string."""
    wanted, found = _type_name(param.value), _type_name(value)
    if wanted != found:
        return f"must be {wanted} as in the SOP, not {found}"
    bounded = param.minimum is not None or param.maximum is not None
    if isinstance(value, bool | str):
        return f"has `min` or `max`, but is {found}" if bounded else ""
    if param.minimum is not None and value < param.minimum:
        return f"{value:g} is below the least value {param.minimum:g}"
    if param.maximum is not None and value > param.maximum:
        return f"{value:g} is above the greatest value {param.maximum:g}"
    return ""


def _type_name(value: ParamValue) -> str:
    match value:
        case bool():
            return "`true` or `false`"
        case str():
            return "text"
        case _:
            return "a number"
