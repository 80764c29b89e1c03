"""What a node comes to, and the comparisons it rests on."""

from __future__ import annotations

from typing import Literal, NamedTuple

Value = Literal["true", "false", "no_data"]
VALUES: tuple[Value, ...] = ("true", "false", "no_data")


class Judged(NamedTuple):
    """`margin` is how far the closest of the figures compared lies from its threshold, relative to
    the threshold; None when nothing was compared."""

    value: Value
    subject: str
    margin: float | None = None


class Clause(NamedTuple):
    """`holds` is None when it cannot be told."""

    holds: bool | None
    margin: float | None = None


UNKNOWN = Clause(None)


def stated(holds: bool | None) -> Clause:
    """A clause that compares no figures."""
    return Clause(holds)


def at_least(figure: float | None, threshold: float) -> Clause:
    if figure is None:
        return UNKNOWN
    return Clause(bool(figure >= threshold), _apart(figure, threshold))


def below(figure: float | None, threshold: float) -> Clause:
    if figure is None:
        return UNKNOWN
    return Clause(bool(figure < threshold), _apart(figure, threshold))


def either(*clauses: Clause) -> Clause:
    """Any known clause that holds; unknown only when all are."""
    known = [clause.holds for clause in clauses if clause.holds is not None]
    return Clause(any(known) if known else None, _closest(clauses))


def both(*clauses: Clause) -> Clause:
    """All of them; unknown when one is."""
    if any(clause.holds is None for clause in clauses):
        return Clause(None, _closest(clauses))
    return Clause(all(clause.holds for clause in clauses), _closest(clauses))


def conclude(subject: str, clause: Clause, *required: Clause) -> Judged:
    """no_data when the clause is unknown or a requirement does not hold or is unknown."""
    unmet = [need for need in required if not need.holds]
    if unmet:
        return Judged("no_data", subject, _closest(unmet))
    margin = _closest((clause, *required))
    if clause.holds is None:
        return Judged("no_data", subject, margin)
    return Judged("true" if clause.holds else "false", subject, margin)


def no_data(subject: str) -> Judged:
    return Judged("no_data", subject)


def _apart(figure: float, threshold: float) -> float:
    distance = abs(figure - threshold)
    return float(distance / abs(threshold) if threshold else distance)


def _closest(clauses: tuple[Clause, ...] | list[Clause]) -> float | None:
    return min((c.margin for c in clauses if c.margin is not None), default=None)
