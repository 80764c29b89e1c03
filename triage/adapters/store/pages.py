"""Pages of decisions, newest first, that read little more than what they show.

SQLite has an index for each filter and no statistics to choose among them by, and a wrong choice
reads all decisions of a site to find one rare outcome. So each statement leaves it one index, and
with several filters the rarest of them is found first, by counting up to a limit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

from sqlalchemy import ColumnElement, Select, bindparam, func, literal, or_, select

from triage.adapters.store.schema import DECISIONS
from triage.adapters.store.transaction import Transaction

_FILTERS = ("alarm", "site", "outcome")
"""The usually rarer first: where counting finds no difference, that one is taken."""

_COUNTED = (100, 1_000)
"""How many decisions are counted of each filter: more only while none has fewer. A filter with a
thousand is common."""

_IN_RANGE = (
    DECISIONS.c.decided_at >= bindparam("since"),
    # One upper bound and not two, for `until` and for the cursor: an index is entered at one of
    # them, and at the wrong one a deep page read everything newer first.
    DECISIONS.c.decided_at <= bindparam("newest"),
)


def _is(name: str) -> ColumnElement[bool]:
    return DECISIONS.c[name] == bindparam(f"its_{name}")


def _is_unindexed(name: str) -> ColumnElement[bool]:
    """The same, written so that no index serves it."""
    return DECISIONS.c[name].concat("") == bindparam(f"its_{name}")


def _page(filters: tuple[str, ...], by: str) -> Select[Any]:
    return (
        select(DECISIONS.c.head, DECISIONS.c.decided_at, DECISIONS.c.alert_id)
        .where(
            *(_is(name) if name == by else _is_unindexed(name) for name in filters),
            *_IN_RANGE,
            or_(
                DECISIONS.c.decided_at < bindparam("from_at"),
                DECISIONS.c.alert_id < bindparam("from_id"),
            ),
        )
        .order_by(DECISIONS.c.decided_at.desc(), DECISIONS.c.alert_id.desc())
        .limit(bindparam("at_most"))
    )


_PAGES = {
    (filters, by): _page(filters, by)
    for count in range(len(_FILTERS) + 1)
    for filters in combinations(_FILTERS, count)
    for by in filters or ("",)
}
_COUNTS = {
    name: select(func.count()).select_from(
        select(literal(1).label("one"))
        .where(_is(name), *_IN_RANGE)
        .limit(bindparam("at_most"))
        .subquery()
    )
    for name in _FILTERS
}


def find_page(
    transaction: Transaction,
    wanted: Mapping[str, str],
    *,
    since: int,
    newest: int,
    after: tuple[int, str],
    limit: int,
) -> Sequence[tuple[str, int, str]]:
    """Head, time and alert id of up to `limit` decisions after the one at `after`.

    `wanted` maps a filter to its value, empty for any. `since` and `newest` bound the time, both
    inclusive; `newest` is not later than `after`.
    """
    values = {name: wanted[name] for name in _FILTERS if wanted[name]}
    bound: dict[str, Any] = {"since": since, "newest": newest}
    by = _rarest(transaction, values, bound) if len(values) > 1 else next(iter(values), "")
    found: Sequence[Any] = transaction.rows(
        _PAGES[tuple(values), by],
        **{f"its_{name}": value for name, value in values.items()},
        **bound,
        from_at=after[0],
        from_id=after[1],
        at_most=limit,
    )
    return found


def _rarest(transaction: Transaction, values: Mapping[str, str], bound: Mapping[str, Any]) -> str:
    def count(name: str, at_most: int) -> int:
        found = transaction.row(
            _COUNTS[name], **{f"its_{name}": values[name]}, **bound, at_most=at_most
        )
        assert found is not None
        return int(found[0])

    counts: dict[str, int] = {}
    for at_most in _COUNTED:
        counts = {name: count(name, at_most) for name in values}
        if min(counts.values()) < at_most:
            break
    return min(counts, key=lambda name: counts[name])
