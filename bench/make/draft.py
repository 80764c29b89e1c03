"""One tool as somebody writes it who knows some of what there is to know, and what it lacks.

`Known` is a tool's whole: its reference, the holes, the quirks, and the bugs that a first draft
has. A `State` says what of that is missing, and gives one text. From a text the state is read back:
what it still lacks is seen in the code itself, so that nothing has to be remembered between two
prompts.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, combinations

from bench.make.bugs import Bug, is_revealed, with_bugs
from bench.make.evidence import Evidence
from bench.make.holes import Hole, fill, guess, holes_of, is_seen, unfill
from bench.make.quirks import Quirk, quirks_of
from bench.make.reading import Shown
from triage.sop.procedure import Param


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """What is missing: guessed names, quirks that nothing deals with, bugs that are in it."""

    holes: frozenset[Hole] = frozenset()
    quirks: frozenset[str] = frozenset()
    bugs: frozenset[Bug] = frozenset()

    @property
    def is_whole(self) -> bool:
        return not (self.holes or self.quirks or self.bugs)


class Known:
    """`taken` are names that no guess may be: those that exist somewhere."""

    def __init__(
        self,
        source: str,
        params: Mapping[str, Param],
        *,
        bugs: Sequence[Bug] = (),
        taken: Collection[str] = (),
    ) -> None:
        self._source = source
        self._params = params
        tree = ast.parse(source)
        self.holes = tuple(holes_of(tree))
        self.quirks: tuple[Quirk, ...] = tuple(
            quirk for quirk in quirks_of(tree) if quirk.spoil(ast.parse(source))
        )
        self.bugs = tuple(bugs)
        self._with: dict[frozenset[Bug], str] = {}
        self._guesses = {hole: guess(hole, taken) for hole in self.holes}

    def first(self, evidence: Evidence) -> State:
        """Of a draft by what a first prompt shows."""
        return self._missing(evidence, State(bugs=frozenset(self.bugs)), whole=True)

    def mended(self, state: State, evidence: Evidence, cases: Sequence[Shown]) -> State:
        """What is still missing when these failing cases, which are of the evidence, are seen."""
        found = self._missing(evidence, state, whole=False)
        return replace(
            found, bugs=frozenset(bug for bug in state.bugs if not is_revealed(bug, cases))
        )

    def _missing(self, evidence: Evidence, state: State, *, whole: bool) -> State:
        """Of all, or of what the state lacks, what the evidence does not show."""
        text = evidence.text
        return State(
            holes=frozenset(
                hole for hole in (self.holes if whole else state.holes) if not is_seen(hole, text)
            ),
            quirks=frozenset(
                quirk.name
                for quirk in self.quirks
                if (whole or quirk.name in state.quirks) and not quirk.shown(evidence)
            ),
            bugs=state.bugs,
        )

    def text(self, state: State) -> str:
        """Always the same for a state."""
        if state.bugs not in self._with:
            bugs = sorted(state.bugs)
            self._with[state.bugs] = with_bugs(self._source, bugs, self._params)
        tree = ast.parse(self._with[state.bugs])
        for quirk in self.quirks:
            if quirk.name in state.quirks:
                quirk.spoil(tree)
        for hole in self.holes:
            if hole in state.holes:
                fill(tree, hole, self._guesses[hole])
        return ast.unparse(tree) + "\n"

    def state_of(self, text: str) -> State | None:
        """What a text lacks; None when it is none of these drafts."""
        try:
            tree = ast.parse(text)
        except (SyntaxError, ValueError, RecursionError):
            return None
        there = set(holes_of(tree))
        holes = frozenset(hole for hole in self.holes if hole not in there)
        for hole in holes:
            unfill(tree, hole, self._guesses[hole])
        plain = ast.unparse(tree)
        lacking = set()
        for quirk in self.quirks:
            if quirk.spoil(tree):
                tree = ast.parse(plain)
            else:
                lacking.add(quirk.name)
        quirks = frozenset(lacking)
        for bugs in _subsets(self.bugs):
            # A bug may have taken out what would deal with a quirk.
            state = State(quirks=quirks, bugs=frozenset(bugs))
            if self.text(state).strip() == plain.strip():
                return replace(state, holes=holes)
        return None


def _subsets(bugs: Sequence[Bug]) -> list[tuple[Bug, ...]]:
    return list(chain.from_iterable(combinations(bugs, size) for size in range(len(bugs) + 1)))
