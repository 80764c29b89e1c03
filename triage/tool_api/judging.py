"""From figures to a verdict."""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan

from triage.model.verdict import Clause, Truth, Verdict


def compare(name: str, observed: float, op: str, threshold: float, unit: str = "") -> Clause:
    """A clause from a comparison. `op` is one of > >= < <= == !=; a NaN holds nothing.

    Raises ValueError for another op.
    """
    match op:
        case ">":
            holds = observed > threshold
        case ">=":
            holds = observed >= threshold
        case "<":
            holds = observed < threshold
        case "<=":
            holds = observed <= threshold
        case "==":
            holds = observed == threshold
        case "!=":
            holds = observed != threshold and not isnan(observed)
        case _:
            raise ValueError(f"{op!r} is not a comparison: use > >= < <= == !=")
    return Clause(name=name, observed=observed, op=op, threshold=threshold, unit=unit, holds=holds)


def conclude(
    clauses: Sequence[Clause], explanation: str, *, subject: str = "", any_of: bool = False
) -> Verdict:
    """TRUE when every clause holds (with `any_of`: when one does), else FALSE.

    Raises ValueError without clauses: a verdict that nothing led to explains nothing.
    """
    if not clauses:
        raise ValueError("a verdict needs at least one clause")
    held = [clause.holds is True for clause in clauses]
    value = Truth.TRUE if (any(held) if any_of else all(held)) else Truth.FALSE
    return Verdict(value=value, clauses=tuple(clauses), explanation=explanation, subject=subject)


def no_data(explanation: str, *, subject: str = "", clauses: Sequence[Clause] = ()) -> Verdict:
    """The query worked and what it should have found is missing."""
    return Verdict(
        value=Truth.NO_DATA, clauses=tuple(clauses), explanation=explanation, subject=subject
    )
