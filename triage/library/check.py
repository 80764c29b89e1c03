"""Whether every parent a tool reads must have answered by the time the tool is evaluated.

A layer is evaluated at once, and a node at its first arrival. So a parent has answered before a
node for certain only when every walk from every alarm to the node goes through the parent: the
parent dominates the node, in the words of compilers.
"""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from triage.errors import Finding
from triage.model.decision import NodeId

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from triage.library.catalogue import Library
    from triage.sop.procedure import Sop

_START = ""
"""The virtual node before every alarm; no node id is empty."""


def check_parents(root: Path, sop: Sop, library: Library) -> list[Finding]:
    """An error for each parent that some walk does not pass before the tool that reads it.
    `root` is where the library was loaded from.

    Close to linear in the SOP's edges, for any number of reads; a path is looked for only to
    explain an error. Tools of nodes that no alarm reaches are not judged.
    """
    dominators = _Dominators(sop)
    paths: dict[NodeId, dict[str, str]] = {}
    findings: list[Finding] = []
    for tool in library.tools.values():
        file = str(root / tool.node / "tool.toml")
        for parent in tool.reads_parents:
            if parent not in sop.nodes:
                findings.append(
                    Finding(
                        file=file,
                        where=tool.node,
                        problem=f"reads_parents names {parent!r}, which is no node of the SOP",
                        fix=_suggestion(sop, parent),
                    )
                )
            elif parent == tool.node:
                findings.append(
                    Finding(
                        file=file,
                        where=tool.node,
                        problem="reads_parents names the node itself",
                        fix="name nodes that are evaluated before it",
                    )
                )
            elif tool.node in dominators and not dominators.dominates(parent, tool.node):
                if parent not in paths:
                    paths[parent] = _avoiding(sop, parent)
                walk = " → ".join(_walk(paths[parent], tool.node))
                findings.append(
                    Finding(
                        file=file,
                        where=tool.node,
                        problem=f"reads {parent!r}, which may not have answered: {walk}",
                        fix=f"remove {parent!r} from reads_parents, or lead every path through it",
                    )
                )
    return findings


def _suggestion(sop: Sop, name: str) -> str:
    if name in sop.actions:
        return "that is an action: only nodes have verdicts"
    close = difflib.get_close_matches(name, list(sop.nodes), n=1)
    return f"did you mean {close[0]!r}?" if close else "name a node of the SOP"


def parents_of(sop: Sop, node: NodeId) -> tuple[NodeId, ...]:
    """The nodes whose verdicts a tool of `node` may read, in the SOP's order; none for a node that
    no alarm reaches."""
    dominators = _Dominators(sop)
    if node not in dominators:
        return ()
    return tuple(
        other for other in sop.nodes if other != node and dominators.dominates(other, node)
    )


def _following(sop: Sop, node: str) -> list[str]:
    if node == _START:
        entries = (entry for entries in sop.alarms.values() for entry in entries)
        return list(dict.fromkeys(entries))
    targets = sop.nodes[NodeId(node)].targets.values()
    return list(dict.fromkeys(t for words in targets for t in words if t in sop.nodes))


class _Dominators:
    """Immediate dominators by Cooper, Harvey and Kennedy's iteration ("A Simple, Fast Dominance
    Algorithm", 2001). Without cycles one round settles it; with them it still ends."""

    def __init__(self, sop: Sop) -> None:
        order = _reverse_postorder(sop)
        self._number = {node: number for number, node in enumerate(order)}
        before: list[list[int]] = [[] for _ in order]
        for node in order:
            for target in _following(sop, node):
                before[self._number[target]].append(self._number[node])
        self._above = self._settle(before)
        self._enter, self._leave = self._intervals()

    def __contains__(self, node: str) -> bool:
        """Whether some alarm reaches the node."""
        return node in self._number

    def dominates(self, upper: str, lower: str) -> bool:
        """Whether every walk to `lower` passes `upper`; `lower` must be reached."""
        if upper not in self._number:
            return False
        a, b = self._number[upper], self._number[lower]
        return self._enter[a] <= self._enter[b] and self._leave[b] <= self._leave[a]

    @staticmethod
    def _settle(before: list[list[int]]) -> list[int]:
        above = [0, *([-1] * (len(before) - 1))]
        changed = True
        while changed:
            changed = False
            for number in range(1, len(before)):
                meet = -1
                for other in before[number]:
                    if above[other] < 0:
                        continue
                    if meet < 0:
                        meet = other
                        continue
                    a, b = meet, other
                    while a != b:
                        if a > b:
                            a = above[a]
                        else:
                            b = above[b]
                    meet = a
                if above[number] != meet:
                    above[number] = meet
                    changed = True
        return above

    def _intervals(self) -> tuple[list[int], list[int]]:
        """Entry and exit times of a walk over the dominator tree: an ancestor encloses."""
        below: list[list[int]] = [[] for _ in self._above]
        for number in range(1, len(self._above)):
            below[self._above[number]].append(number)
        enter, leave = [0] * len(below), [0] * len(below)
        time = 0
        stack = [(0, iter(below[0]))]
        while stack:
            number, rest = stack[-1]
            child = next(rest, None)
            time += 1
            if child is None:
                leave[number] = time
                stack.pop()
            else:
                enter[child] = time
                stack.append((child, iter(below[child])))
        return enter, leave


def _reverse_postorder(sop: Sop) -> list[str]:
    done: list[str] = []
    seen = {_START}
    stack = [(_START, iter(_following(sop, _START)))]
    while stack:
        node, rest = stack[-1]
        target = next((t for t in rest if t not in seen), None)
        if target is None:
            done.append(node)
            stack.pop()
        else:
            seen.add(target)
            stack.append((target, iter(_following(sop, target))))
    done.reverse()
    return done


def _avoiding(sop: Sop, removed: NodeId) -> dict[str, str]:
    """Node to the one before it on a shortest walk from an alarm that never meets `removed`."""
    before: dict[str, str] = {}
    queue = [_START]
    for node in queue:
        for target in _following(sop, node):
            if target != removed and target not in before:
                before[target] = node
                queue.append(target)
    return before


def _walk(before: Mapping[str, str], node: str) -> list[str]:
    walk = []
    while node != _START:
        walk.append(node)
        node = before[node]
    return walk[::-1]
