"""What a server says of its metrics, beside their names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from triage.model.catalogue import Metric

_SUFFIXES = ("_total", "_bucket", "_count", "_sum", "_created", "_info")
"""What a sample's name has that its family's lacks, in one format of exposition or another."""


def described(names: Sequence[str], metadata: Mapping[str, Any]) -> dict[str, Metric]:
    """By name. `metadata` is the server's document, of scraped targets only: what it does not
    know, or says in a form of its own, stays without a text."""
    return {name: _metric(_entry(name, metadata)) for name in sorted(names)}


def _entry(name: str, metadata: Mapping[str, Any]) -> Mapping[str, Any]:
    for family in _families(name):
        entries = metadata.get(family)
        if isinstance(entries, list) and entries and isinstance(entries[0], dict):
            return entries[0]
    return {}


def _families(name: str) -> Iterator[str]:
    yield name
    for suffix in _SUFFIXES:
        if name.endswith(suffix):
            yield name.removesuffix(suffix)


def _metric(entry: Mapping[str, Any]) -> Metric:
    kind = _text(entry, "type")
    return Metric(
        help=_text(entry, "help"),
        kind="" if kind == "unknown" else kind,
        unit=_text(entry, "unit"),
    )


def _text(entry: Mapping[str, Any], key: str) -> str:
    value = entry.get(key)
    return value if isinstance(value, str) else ""
