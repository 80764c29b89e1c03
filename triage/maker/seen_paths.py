"""The leaves of JSON: a path for each, and what was found there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from triage.fallback.masking import Mask
from triage.maker.model import SeenField
from triage.maker.seen_fields import Scalar, fields_of, shown_name, spelled_text
from triage.model.canonical import canonical_json

MOST_KEYS = 16
"""An object with more is a map: its keys are data, and its values are of one field."""
MAX_DEPTH = 8
MOST_PATHS = 200
MAX_KEY = 40  # characters
KEYS = "(keys)"


@dataclass(slots=True)
class _Leaf:
    values: list[Scalar] = field(default_factory=list)
    deep: Counter[str] = field(default_factory=Counter)
    """Lists and objects that are empty or lie too deep, by their kind."""


class _Leaves:
    """`objects` counts the objects at a path, `present` those of them that have a key."""

    def __init__(self, mask: Mask) -> None:
        self.mask = mask
        self.found: dict[str, _Leaf] = {}
        self.parents: dict[str, str] = {}
        self.objects: Counter[str] = Counter()
        self.present: Counter[str] = Counter()
        self.left_out: set[str] = set()

    def at(self, path: str, parent: str = "") -> _Leaf | None:
        leaf = self.found.get(path)
        if leaf is None:
            if len(self.found) >= MOST_PATHS:
                self.left_out.add(path)
                return None
            leaf = self.found[path] = _Leaf()
            self.parents[path] = parent
        return leaf

    def take(self, value: Any, path: str, depth: int, parent: str = "") -> None:
        leaf: _Leaf | None
        if isinstance(value, Mapping | list | tuple):
            kind = "object" if isinstance(value, Mapping) else "list"
            if not value or depth >= MAX_DEPTH:
                if (leaf := self.at(path, parent)) is not None:
                    leaf.deep[kind] += 1
            elif isinstance(value, Mapping):
                self.take_object(value, path, depth)
            else:
                for one in value:
                    self.take(one, f"{path}[]", depth + 1)
        elif (leaf := self.at(path, parent)) is not None:
            leaf.values.append(value)

    def take_object(
        self, value: Mapping[str, Any], path: str, depth: int, *, may_be_map: bool = True
    ) -> None:
        if may_be_map and len(value) > MOST_KEYS:
            if (leaf := self.at(f"{path}.{KEYS}" if path else KEYS)) is not None:
                leaf.values.extend(value)
            for one in value.values():
                self.take(one, f"{path}.*" if path else "*", depth + 1)
            return
        self.objects[path] += 1
        for key, one in value.items():
            below = self.joined(path, key)
            self.present[below] += 1
            self.take(one, below, depth + 1, path)

    def joined(self, path: str, key: str) -> str:
        """`a.b`; what is no plain name is quoted, so that a key cannot pass for a path."""
        if key.isidentifier() and key.isascii() and len(key) <= MAX_KEY:
            return f"{path}.{key}" if path else key
        return f"{path}[{spelled_text(self.mask.clean(key), MAX_KEY)}]"

    def missing(self, path: str) -> int:
        """How many of the objects around it do not have it."""
        if path not in self.present:
            return 0
        return self.objects[self.parents.get(path, "")] - self.present[path]


def leaves(values: Sequence[Any], *, mask: Mask, top: str = "") -> tuple[list[SeenField], int]:
    """Fields of all `values` together, in the order they came up, and how many more paths there
    were. `top` names what is itself a leaf. Without it the values are rows, whose keys are columns
    however many there are."""
    found = _Leaves(mask)
    for value in values:
        if not top and isinstance(value, Mapping):
            found.take_object(value, "", 0, may_be_map=False)
        elif isinstance(value, Mapping | list) and value:
            found.take(value, "", 0)
        else:
            found.take(value, top, 0)
    fields = [
        field
        for path, leaf in found.found.items()
        for field in _fields(path, leaf, found.missing(path), mask)
    ]
    return fields, len(found.left_out)


def _fields(path: str, leaf: _Leaf, missing: int, mask: Mask) -> Iterator[SeenField]:
    if not leaf.deep:
        yield from fields_of(path, leaf.values, mask=mask, missing=missing)
        return
    first, *others = fields_of(path, leaf.values, mask=mask, missing=missing)
    kinds = tuple(kind for kind in first.types if kind != "null" or leaf.values or missing)
    yield first._replace(
        name=shown_name(path, mask),
        types=(*kinds, *sorted(leaf.deep)),
        count=first.count + leaf.deep.total(),
    )
    yield from others


def doubled(rows: Sequence[Mapping[str, Any]]) -> int:
    """How many of them equal one before."""
    counts = Counter(canonical_json(dict(row)) for row in rows)
    return counts.total() - len(counts)
