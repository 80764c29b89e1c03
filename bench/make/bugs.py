"""Mistakes that a first candidate has beside what nobody could know, and what shows each.

A bug is a change of the mutation operators of `bench.cases`. It is mended when a failing case shows
it, and REVEALED_BY says when one does: by what was expected and predicted, by the clauses, by how
it failed and by the subject. Operators that are not in it are not used: what they do is a quirk of
the data (see `quirks`), or no verdict shows it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import NamedTuple

from bench.cases.mutation import Change, Subject, changed_text
from bench.cases.mutation_local import LOCAL
from bench.cases.mutation_whole import WHOLE
from bench.make.reading import FAILED, SaidClause, Shown
from triage.sop.procedure import Param

TRUTHS = ("true", "false")
NO_DATA = "no_data"


class Bug(NamedTuple):
    """`number` counts the operator's changes of one tool, from 0."""

    operator: str
    number: int

    def __str__(self) -> str:
        return f"{self.operator}#{self.number}"

    @classmethod
    def read(cls, text: str) -> Bug:
        """Raises ValueError for what is not spelled as `str` does it."""
        operator, _, number = text.rpartition("#")
        return cls(operator, int(number))


class FoundBug(NamedTuple):
    bug: Bug
    change: Change


# --- what a failing case shows ------------------------------------------------------------------


def turned(case: Shown) -> bool:
    """True for false, or the other way round."""
    return case.predicted != case.expected and {case.predicted, case.expected} == set(TRUTHS)


def gap_unseen(case: Shown) -> bool:
    """A verdict where there is nothing to judge by."""
    return case.expected == NO_DATA and case.predicted in TRUTHS


def gap_imagined(case: Shown) -> bool:
    return case.predicted == NO_DATA and case.expected in TRUTHS


def misjudged(case: Shown) -> bool:
    """A figure that is wrong: another verdict, or another asset is the worst."""
    return turned(case) or gap_unseen(case) or gap_imagined(case) or case.wrong_subject


def _nothing_said(case: Shown) -> bool:
    """False of nothing: no figure stands behind it."""
    return (
        case.expected == NO_DATA
        and case.predicted == "false"
        and all(clause.name == "nothing" for clause in case.clauses)
    )


def _check_missing(case: Shown) -> bool:
    return gap_unseen(case) or (case.expected == NO_DATA and case.predicted == FAILED)


def _just_met(case: Shown) -> bool:
    return turned(case) and any(
        clause.observed is not None and clause.observed == clause.threshold
        for clause in case.clauses
    )


def _is_a_share(case: Shown) -> bool:
    """A figure of percent that can be none."""
    return turned(case) and any(_small(clause) for clause in case.clauses)


def _small(clause: SaidClause) -> bool:
    return (
        clause.unit in ("percent", "per thousand")
        and clause.observed is not None
        and 0 <= clause.observed <= 1
    )


def _one_sided(case: Shown) -> bool:
    """All clauses speak for what was predicted: the one that would not is missing."""
    return (
        turned(case)
        and bool(case.clauses)
        and all(clause.holds is (case.predicted == "true") for clause in case.clauses)
    )


def _mixed(case: Shown) -> bool:
    """Clauses that hold beside ones that do not."""
    return turned(case) and {clause.holds for clause in case.clauses} == {True, False}


def _scope(case: Shown) -> bool:
    """Of an alert about one asset, or with another one to blame."""
    return case.wrong_subject or (misjudged(case) and bool(case.lines.get("entity", "")))


def _or_failed(case: Shown) -> bool:
    return misjudged(case) or case.predicted == FAILED


Revealed = Callable[[Shown], bool]

REVEALED_BY: Mapping[str, Revealed] = {
    "strictness": _just_met,
    "share for percent": _is_a_share,
    "false for no_data": _nothing_said,
    "check dropped": _check_missing,
    "condition dropped": _or_failed,
    "minimum dropped": misjudged,
    "baseline skipped": _one_sided,
    "clause dropped": _one_sided,
    "any_of flipped": _mixed,
    "carry removed": misjudged,
    "a week fewer": misjudged,
    "scope ignored": _scope,
    "kind of entity ignored": _scope,
    "least for greatest": misjudged,
    "nothing subtracted": misjudged,
    "median for mean": misjudged,
    "mean for median": misjudged,
    "min for max": misjudged,
    "max for min": misjudged,
    "any for all": misjudged,
    "all for any": misjudged,
    "median for quantile": misjudged,
    "other end": misjudged,
    "restart ignored": misjudged,
    "another series": _or_failed,
    "twice as long": misjudged,
    "half as long": misjudged,
    "lag ignored": misjudged,
    "lag doubled": misjudged,
    "oldest for latest in SQL": misjudged,
}
"""By operator; of those of a param, by what is done to it."""


def revealed_by(operator: str) -> Revealed | None:
    """None for an operator that is not used."""
    found = REVEALED_BY.get(operator)
    if found is not None:
        return found
    _, _, amount = operator.partition(" ")
    return REVEALED_BY.get(amount) if re.match(r"\w+_s ", operator) else None


def is_revealed(bug: Bug, cases: Sequence[Shown]) -> bool:
    shows = revealed_by(bug.operator)
    return shows is not None and any(map(shows, cases))


# --- finding and making them --------------------------------------------------------------------


def bugs_of(subject: Subject) -> Iterator[FoundBug]:
    """All that could be made in a tool, in the order of its tree. Their number does not depend on
    what else is used."""
    counts: dict[str, int] = {}
    for change in _changes(subject):
        number = counts.get(change.operator, 0)
        counts[change.operator] = number + 1
        if revealed_by(change.operator) is not None:
            yield FoundBug(Bug(change.operator, number), change)


def _changes(subject: Subject) -> Iterator[Change]:
    for node in ast.walk(subject.tree):
        if not subject.is_said(node):
            for operator in LOCAL:
                yield from operator(subject, node)
    for whole in WHOLE:
        yield from whole(subject)


def with_bugs(source: str, bugs: Sequence[Bug], params: Mapping[str, Param]) -> str:
    """The tool with these mistakes in it, without its comments. Raises KeyError for a bug that it
    cannot have."""
    subject = Subject(ast.parse(source), params)
    # To find them takes longer than all else that is done with a draft.
    found = {one.bug: one.change for one in bugs_of(subject)} if bugs else {}
    changes = [found[bug] for bug in bugs]
    together = Change(
        "boundary",
        "",
        {place: new for change in changes for place, new in change.places.items()},
        tuple(name for change in changes for name in change.imports),
    )
    return changed_text(subject, together)


def apart(subject: Subject, one: Change, other: Change) -> bool:
    """Whether they are in different statements of the file."""
    return {subject.top_of(node) for node in one.places}.isdisjoint(
        subject.top_of(node) for node in other.places
    )


def drawn(node: str, seed: int, bugs: Sequence[FoundBug]) -> list[FoundBug]:
    """In an order that hangs on node and seed alone."""
    return sorted(bugs, key=lambda one: sha256(f"{seed}/{node}/{one.bug}".encode()).digest())
