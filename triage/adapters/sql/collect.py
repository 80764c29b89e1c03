"""What a query returned, batch by batch, as the rows of an answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from triage.adapters.sql.values import NoJsonForm, json_value
from triage.errors import ToolFailed, ToolFailure
from triage.model.canonical import canonical_json


@dataclass(slots=True, kw_only=True)
class Collector:
    """Filled by one thread at a time, which need not be the event loop's.

    `rejected` makes the error for a query that cannot be answered, `name` is the source's.
    """

    name: str
    max_rows: int
    max_bytes: int
    rejected: Callable[[str], ToolFailed]
    rows: list[dict[str, Any]] = field(default_factory=list)
    _columns: list[str] = field(default_factory=list)
    _size: int = 0

    def columns(self, names: list[str]) -> None:
        """Before the first batch. Raises ToolFailed for names that are not told apart."""
        twice = {name for name in names if names.count(name) > 1}
        if twice:
            raise self.rejected(f"two columns are called {min(twice)!r}: rename one with AS")
        self._columns = names

    def batch(self, batch: Sequence[Any]) -> None:
        """Raises ToolFailed for a value with no JSON form, and for more than an answer may hold."""
        body = self._encode(batch)
        self._size += len(body)
        # Decoding what was encoded makes a live answer the recorded one, to the order of its keys.
        self.rows.extend(orjson.loads(body))
        if len(self.rows) > self.max_rows:
            problem = f"more than {self.max_rows} rows"
        elif self._size > self.max_bytes:
            problem = f"more than {self.max_bytes} bytes"
        else:
            return
        raise ToolFailed(
            ToolFailure.ANSWER_TOO_LARGE,
            f"source {self.name!r}: {problem}: aggregate in the query, or narrow it",
        )

    def _encode(self, batch: Sequence[Any]) -> bytes:
        columns = self._columns
        try:
            rows = [
                {name: json_value(value) for name, value in zip(columns, row, strict=True)}
                for row in batch
            ]
        except NoJsonForm as error:
            name = next(n for row in batch for n, v in zip(columns, row, strict=True) if _bad(v))
            raise self.rejected(
                f"column {name!r} holds {error}, which has no JSON form: cast it to text"
            ) from None
        try:
            return canonical_json(rows)
        except TypeError as error:
            raise self.rejected(f"a value has no JSON form: {error}") from None


def _bad(value: Any) -> bool:
    try:
        json_value(value)
    except NoJsonForm:
        return True
    return False
