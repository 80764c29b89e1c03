"""Mutants: a tool with one mistake in it. Cases that let one live are too weak.

All mutants of a tool are found by the operators of `mutation_local` and `mutation_whole`; of
those a share is taken, every kind its part and none by hand, so that common code (normalising
ids, say) does not crowd out what is the tool's own.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import NamedTuple

from bench.cases.equivalents import EQUIVALENTS, Equivalent
from bench.cases.mutation import Change, Kind, Subject, changed_text, plain_text
from bench.cases.mutation_local import LOCAL
from bench.cases.mutation_whole import WHOLE
from triage.sop.procedure import Param

MOST = 15  # mutants of a tool
SHOWN = 120  # characters of code shown whole
AROUND = 30  # characters shown beside what differs in longer code


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """`line` is of the tool's file; `before` and `after` are the code there, on one line."""

    node: str
    kind: Kind
    operator: str
    line: int
    before: str
    after: str
    text: str

    def __str__(self) -> str:
        return (
            f"{self.node}:{self.line} {self.kind}, {self.operator}: {self.before} -> {self.after}"
        )


class Found(NamedTuple):
    """`left_out` are equivalents, each with the reason."""

    mutants: tuple[Mutant, ...]
    left_out: tuple[tuple[Mutant, str], ...]


def every_mutant(node: str, source: str, params: Mapping[str, Param]) -> list[Mutant]:
    """All that the operators find, in the order of lines; none twice and none that is the tool."""
    subject = Subject(ast.parse(source), params)
    same = plain_text(subject)
    found: dict[str, Mutant] = {}
    for change in _changes(subject):
        text = changed_text(subject, change)
        if text != same and text not in found:
            found[text] = _mutant(node, change, text)
    return sorted(found.values(), key=lambda one: (one.line, one.kind, one.operator, one.after))


def mutants_of(
    node: str,
    source: str,
    params: Mapping[str, Param],
    *,
    most: int = MOST,
    equivalents: tuple[Equivalent, ...] = EQUIVALENTS,
) -> Found:
    """Up to `most`, as many of each kind as there are, in turn. The same source gives the same."""
    kept: list[Mutant] = []
    left_out: list[tuple[Mutant, str]] = []
    for mutant in every_mutant(node, source, params):
        why = next(
            (one.why for one in equivalents if one.covers(node, mutant.operator, mutant.before)), ""
        )
        if why:
            left_out.append((mutant, why))
        else:
            kept.append(mutant)
    return Found(tuple(_in_turn(kept, most)), tuple(left_out))


def _changes(subject: Subject) -> Iterator[Change]:
    for node in ast.walk(subject.tree):
        if not subject.is_said(node):
            for operator in LOCAL:
                yield from operator(subject, node)
    for whole in WHOLE:
        yield from whole(subject)


def _mutant(node: str, change: Change, text: str) -> Mutant:
    place, new = next(iter(change.places.items()))
    before, after = _differing(*(" ".join(ast.unparse(one).split()) for one in (place, new)))
    if isinstance(place, ast.FunctionDef):
        before, after = f"def {place.name}", f"def {place.name} with {change.operator}"
    if change.shown is not None:
        before, after = change.shown
    return Mutant(
        node=node,
        kind=change.kind,
        operator=change.operator,
        line=getattr(place, "lineno", 0),
        before=before,
        after=after,
        text=text,
    )


def _differing(before: str, after: str) -> tuple[str, str]:
    """Both, of long texts the part that differs with a few characters around it."""
    if max(len(before), len(after)) <= SHOWN:
        return before, after
    start = _common(before, after)
    rest = min(len(before), len(after)) - start
    end = min(_common(before[::-1], after[::-1]), rest)
    first = max(start - AROUND, 0)
    last = max(end - AROUND, 0)
    return before[first : len(before) - last], after[first : len(after) - last]


def _common(one: str, other: str) -> int:
    """How many characters both begin with."""
    return next(
        (i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b),
        min(len(one), len(other)),
    )


def _in_turn(mutants: list[Mutant], most: int) -> list[Mutant]:
    """One of each kind, then a second of each, until there are enough. Which of a kind comes
    first is drawn from its text, and operators of a kind take turns as well."""
    kinds: dict[Kind, list[Mutant]] = {}
    for mutant in sorted(mutants, key=_draw):
        kinds.setdefault(mutant.kind, []).append(mutant)
    queues = [_operators_in_turn(kinds[kind]) for kind in sorted(kinds)]
    chosen: list[Mutant] = []
    while len(chosen) < most and any(queues):
        for queue in queues:
            if queue and len(chosen) < most:
                chosen.append(queue.pop(0))
    return sorted(chosen, key=lambda one: (one.line, one.kind, one.operator, one.after))


def _operators_in_turn(mutants: list[Mutant]) -> list[Mutant]:
    seen: dict[str, int] = {}
    turns: list[tuple[int, int]] = []
    for place, mutant in enumerate(mutants):
        turn = seen.get(mutant.operator, 0)
        seen[mutant.operator] = turn + 1
        turns.append((turn, place))
    return [mutants[place] for _, place in sorted(turns)]


def _draw(mutant: Mutant) -> str:
    return sha256(str(mutant).encode()).hexdigest()
