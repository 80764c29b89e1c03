"""What a node says: a truth value of three, and the clauses that led to it.

Named tuples for the same reason as in `decision`: made for every node of every alert.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple, NoReturn

Observed = float | int | str | bool | None


class Truth(Enum):
    """Three-valued. Compare with `is`; truth-testing raises, because NO_DATA is not false.

    `word` is the value as a plain attribute, which an Enum's `value` is not: that one is looked
    up through a descriptor, and edges, hashes and metrics ask for it again and again.
    """

    TRUE = "true"
    FALSE = "false"
    NO_DATA = "no_data"

    word: str

    def __init__(self, word: str) -> None:
        self.word = word

    def __bool__(self) -> NoReturn:
        raise TypeError("a Truth has three values: compare it with `is Truth.TRUE`")


WORDS = tuple(truth.word for truth in Truth)


class Clause(NamedTuple):
    """One comparison of a verdict.

    `holds` is None when there was nothing to compare. `unit` is the unit of both `observed` and
    `threshold`, empty for a pure number or a word.
    """

    name: str
    observed: Observed
    op: str
    threshold: Observed
    unit: str = ""
    holds: bool | None = None


class Verdict(NamedTuple):
    """`explanation` is one line. `subject` is the asset the verdict speaks of, empty for the
    alert's own entity."""

    value: Truth
    clauses: tuple[Clause, ...] = ()
    explanation: str = ""
    subject: str = ""
