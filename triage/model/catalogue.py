"""What a source has, by name: what somebody asks for who does not know it yet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import log
from typing import NamedTuple


class Metric(NamedTuple):
    """`labels` are names of labels, `__name__` not among them; empty where the backend does not
    tell them for all metrics at once. `help`, `kind` (gauge, counter, …) and `unit` are the
    backend's own words, empty when it has none."""

    labels: tuple[str, ...] = ()
    help: str = ""
    kind: str = ""
    unit: str = ""


class Column(NamedTuple):
    """`type` is the backend's word for it."""

    name: str
    type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalogue:
    """Metrics and tables by name. All texts are data from outside."""

    metrics: Mapping[str, Metric] = field(default_factory=dict)
    tables: Mapping[str, tuple[Column, ...]] = field(default_factory=dict)


def ranked(entries: Mapping[str, str], words: Sequence[str]) -> list[str]:
    """Names of the entries that hold at least one of the words, those that hold the most of them
    first; all of them, by name, without a word. `entries` maps a name to what else is said of it.

    Case does not matter, and a word may be part of a longer one. Of two entries that hold as many,
    the one whose words are rarer, and stand in its name, comes first: a word that nearly every
    entry holds tells nothing.
    """
    wanted = tuple(dict.fromkeys(word.casefold() for word in words if word))
    if not wanted:
        return sorted(entries)
    texts = {name: (name.casefold(), f"{name} {more}".casefold()) for name, more in entries.items()}
    weights = {
        word: log(1 + len(texts) / (1 + sum(word in text for _, text in texts.values())))
        for word in wanted
    }
    keys: dict[str, tuple[int, float, str]] = {}
    for name, (own, text) in texts.items():
        if held := [word for word in wanted if word in text]:
            weight = sum(weights[word] * (2 if word in own else 1) for word in held)
            keys[name] = (-len(held), -weight, name)
    return sorted(keys, key=keys.__getitem__)


def metric_words(metric: Metric) -> str:
    """What is said of a metric besides its name."""
    return " ".join((*metric.labels, metric.help, metric.kind, metric.unit))


def table_words(columns: Sequence[Column]) -> str:
    return " ".join(column.name for column in columns)
