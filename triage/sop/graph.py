"""Whether an SOP's graph can be walked to an end, wholly, and without an unguarded costly action.

Every search is iterative and takes time linear in nodes and edges. Names that mean nothing are
skipped here: `references` has reported them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from triage.errors import Finding
from triage.sop.located import Located, plain
from triage.sop.sop_file import SopFile

MAX_PATH = 12  # steps of a path that a message prints


def check_graph(file: SopFile, located: Located, *, complete: bool) -> Iterator[Finding]:
    """Every fault of the graph. Without every entry (`complete` is False) nothing is called
    unreachable or needless: what led to it may be among the missing."""
    yield from _cycles(file, located)
    arrivals = _unguarded_arrivals(file)
    yield from _unguarded(file, located, arrivals)
    if complete:
        yield from _unreachable(file, located)
        yield from _needless_excuses(file, located, arrivals)


def successors(file: SopFile) -> dict[str, list[str]]:
    """For every node the nodes it may lead to."""
    return {
        node_id: [t for targets in node.targets.values() for t in targets if t in file.nodes]
        for node_id, node in file.nodes.items()
    }


# --- cycles -----------------------------------------------------------------------------------


def _cycles(file: SopFile, located: Located) -> Iterator[Finding]:
    graph = successors(file)
    for path in cycles(graph):
        yield located.finding(
            ("nodes", path[0]),
            f"the nodes lead back to where they began: {_arrows(path)}",
            "remove one of these edges; a node is evaluated once",
        )


def cycles(graph: Mapping[str, Iterable[str]]) -> Iterator[list[str]]:
    """One shortest cycle, first node repeated at its end, for every knot of the graph.

    A knot is a strongly connected component with an edge inside. The first node in the graph's
    order that lies in the knot begins the path.
    """
    order = {name: index for index, name in enumerate(graph)}
    for component in _components(graph):
        members = set(component)
        first = min(members, key=order.__getitem__)
        if len(members) > 1 or first in graph[first]:
            yield _shortest_cycle(graph, members, first)


@dataclass(slots=True, kw_only=True)
class _Mark:
    """Tarjan's numbers for one node."""

    number: int
    low: int
    stacked: bool = True


def _components(graph: Mapping[str, Iterable[str]]) -> Iterator[list[str]]:
    """Strongly connected components (Tarjan 1972), with the recursion on a list."""
    marks: dict[str, _Mark] = {}
    stack: list[str] = []
    for root in graph:
        if root in marks:
            continue
        marks[root] = _Mark(number=len(marks), low=len(marks))
        stack.append(root)
        work = [(root, iter(graph[root]))]
        while work:
            name, rest = work[-1]
            for target in rest:
                if target not in marks:
                    marks[target] = _Mark(number=len(marks), low=len(marks))
                    stack.append(target)
                    work.append((target, iter(graph[target])))
                    break
                if marks[target].stacked:
                    marks[name].low = min(marks[name].low, marks[target].number)
            else:
                work.pop()
                mark = marks[name]
                if work:
                    parent = marks[work[-1][0]]
                    parent.low = min(parent.low, mark.low)
                if mark.low == mark.number:
                    yield _popped(stack, name, marks)


def _popped(stack: list[str], until: str, marks: Mapping[str, _Mark]) -> list[str]:
    component = []
    name = ""
    while name != until:
        name = stack.pop()
        marks[name].stacked = False
        component.append(name)
    return component


def _shortest_cycle(graph: Mapping[str, Iterable[str]], members: set[str], first: str) -> list[str]:
    came_from: dict[str, str] = {}
    queue = deque([first])
    while first not in came_from:
        name = queue.popleft()
        for target in graph[name]:
            if target in members and target not in came_from:
                came_from[target] = name
                queue.append(target)
    path = [first]
    while len(path) == 1 or path[-1] != first:
        path.append(came_from[path[-1]])
    return path[::-1]


def _arrows(path: list[str]) -> str:
    if len(path) > MAX_PATH:
        half = MAX_PATH // 2
        left_out = f"… {len(path) - 2 * half} more …"
        path = [*path[:half], left_out, *path[-half:]]
    return " → ".join(path)


# --- what the alarms reach --------------------------------------------------------------------


def _unreachable(file: SopFile, located: Located) -> Iterator[Finding]:
    graph = successors(file)
    reached: dict[str, None] = {}
    for entry in file.alarms.values():
        reached.update(dict.fromkeys(name for name in entry if name in graph))
    queue = deque(reached)
    while queue:
        for target in graph[queue.popleft()]:
            if target not in reached:
                reached[target] = None
                queue.append(target)
    for node_id in graph:
        if node_id not in reached:
            yield located.finding(
                ("nodes", node_id),
                "no alarm leads to this node",
                "lead to it from another node or an alarm, or remove it",
            )
    led_to = {
        target
        for node_id in reached
        for targets in file.nodes[node_id].targets.values()
        for target in targets
    }
    for action_id in file.actions:
        if action_id not in led_to:
            yield located.finding(
                ("actions", action_id),
                "no node that an alarm reaches leads to this action",
                "lead to it from a node, or remove it",
                warning=True,
            )


# --- costly actions ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Arrival:
    """How a node is first reached with no constraint answered before it. `origin` is a node, or
    empty at an entry; `steps` is how many edges lie between it and the alarm's entry."""

    alarm: str
    origin: str = ""
    word: str = ""
    steps: int = 0


def _unguarded_arrivals(file: SopFile) -> dict[str, _Arrival]:
    arrivals: dict[str, _Arrival] = {}
    for alarm, entry in file.alarms.items():
        for name in entry:
            if name in file.nodes:
                arrivals.setdefault(name, _Arrival(alarm=alarm))
    queue = deque(arrivals)
    while queue:
        name = queue.popleft()
        node, arrival = file.nodes[name], arrivals[name]
        for word, targets in node.targets.items():
            if node.kind == "constraint" and word != "failed":
                continue  # a constraint that failed has guarded nothing
            for target in targets:
                if target in file.nodes and target not in arrivals:
                    arrivals[target] = _Arrival(
                        alarm=arrival.alarm, origin=name, word=word, steps=arrival.steps + 1
                    )
                    queue.append(target)
    return arrivals


def _costly_edges(file: SopFile, name: str) -> Iterator[tuple[str, int, str]]:
    """Word, index and action of every edge from a node to a costly action."""
    for word, targets in file.nodes[name].targets.items():
        for index, target in enumerate(targets):
            action = file.actions.get(target)
            if action is not None and action.cost == "high":
                yield word, index, target


def _unguarded(
    file: SopFile, located: Located, arrivals: Mapping[str, _Arrival]
) -> Iterator[Finding]:
    for name in arrivals:
        node = file.nodes[name]
        if node.kind == "constraint" or node.unguarded_because is not None:
            continue
        for word, index, action in _costly_edges(file, name):
            yield located.finding(
                ("nodes", name, f"on_{word}", index),
                f"the costly action `{action}` is reached without a constraint: "
                f"{_walk(arrivals, name)} —{word}→ {action}",
                "put a constraint node before it, or say why not in `unguarded_because`",
            )


def _walk(arrivals: Mapping[str, _Arrival], name: str) -> str:
    """The way to `name`, its last MAX_PATH steps at most."""
    alarm = plain(arrivals[name].alarm)
    parts = [name]
    while (arrival := arrivals[name]).origin:
        if len(parts) > MAX_PATH:
            return f"alarm {alarm} → … {arrival.steps} more … → {''.join(parts[::-1])}"
        parts.append(f"{arrival.origin} —{arrival.word}→ ")
        name = arrival.origin
    return f"alarm {alarm} → {''.join(parts[::-1])}"


def _needless_excuses(
    file: SopFile, located: Located, arrivals: Mapping[str, _Arrival]
) -> Iterator[Finding]:
    for name, node in file.nodes.items():
        if node.unguarded_because is None:
            continue
        if node.kind == "constraint" or name not in arrivals or not any(_costly_edges(file, name)):
            yield located.finding(
                ("nodes", name, "unguarded_because"),
                "`unguarded_because` excuses nothing: every costly action here is guarded, "
                "or there is none",
                "remove it, so that a later unguarded edge is noticed",
                warning=True,
            )
