"""One node against its own past: what its tool sees, what it says, how often it fails.

Deterministic, and of bounded size: the same evaluations in the same order always leave the same
state and raise the same alarms, also when it was stored and loaded in between.

What is watched, and from when on (the warm-up, in evaluations that found something):

- a figure of the values (their middle, nulls, samples per second): 36 at the same site, over a
  week of alert time at least;
- fields and types that were always or never there: 24 at the same site;
- shares (verdicts, failures, empty answers, refused queries): 36 of the node, or at the site;
- a source that does not answer: DEAD evaluations in a row, from the first on.

An alarm holds until what it is about is as usual again, and is what is usual itself when it has
held for some 400 evaluations.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import inf
from typing import Any, NamedTuple, Self

import orjson

from triage.errors import SourceFailure, ToolFailure
from triage.model.decision import NodeId
from triage.model.verdict import WORDS
from triage.ports.watching import WatchKind
from triage.watching.drift_evidence import Share
from triage.watching.drift_slot import Alarm, SlotDrift
from triage.watching.features import NodeSeen, SlotSeen

__all__ = ["Alarm", "Change", "NodeDrift"]

FORMAT = 1
DEAD = 5  # evaluations in a row whose source did not answer
SAME_S = 3 * 3600.0
"""Seconds of alert time after which an evaluation at a site is wholly new. What is asked sooner
sees much of the same hours, the same shift and the same faults, and counts for less."""
FAULT_S = 24 * 3600.0
"""The same for verdicts: a fault on the floor, which is what verdicts are about, may last a day."""
LEAST_WEIGHT = 0.1
"""Of an evaluation at the same instant as the one before: a change in the middle of a storm of
alerts is seen during the storm."""

MAX_SLOTS = 64
MAX_SITES = 256  # whose last evaluation is remembered

TOOL_FAILURES = frozenset(failure.value for failure in ToolFailure)
UNANSWERED = frozenset(
    failure.value for failure in SourceFailure if failure is not SourceFailure.UNRECORDED
)
FAILING = "tool"
UNSERVED = "sources"

Key = tuple[WatchKind, str]


class Change(NamedTuple):
    """`opened` hold since this evaluation, `ended` no longer do."""

    opened: tuple[Alarm, ...]
    ended: tuple[Key, ...]


class NodeDrift:
    """All that was learned of one node. `tool_sha256` is of the tool that was watched last: another
    one starts its verdicts and failures anew, and keeps what was learned of the sources."""

    __slots__ = (
        "_dead",
        "_last_at",
        "_reason",
        "_slots",
        "_words",
        "evaluations",
        "left_out",
        "node",
        "open",
        "tool_sha256",
    )

    def __init__(self, node: NodeId) -> None:
        self.node = node
        self.tool_sha256 = ""
        self.evaluations = 0
        self.left_out = 0
        self.open: dict[Key, Alarm] = {}
        self._words = _new_words()
        self._slots: dict[str, SlotDrift] = {}
        self._dead: dict[str, tuple[int, str]] = {}
        self._last_at: dict[str, float] = {}
        self._reason = ""

    def see(self, seen: NodeSeen) -> Change:
        if seen.tool_sha256 and seen.tool_sha256 != self.tool_sha256:
            self.tool_sha256, self._words = seen.tool_sha256, _new_words()
        self.evaluations += 1
        since_s = self._since_s(seen)
        weight = _weight(since_s, SAME_S)
        for word, share in self._words.items():
            share.see(_is(word, seen), _weight(since_s, FAULT_S) if word in WORDS else weight)
        if seen.failure:
            self._reason = f"{seen.failure}: {seen.detail}" if seen.detail else seen.failure
        self._count_dead(seen.slots)
        for slot in seen.slots:
            drift = self._slots.get(slot.slot)
            if drift is None:
                if len(self._slots) >= MAX_SLOTS:
                    self.left_out += 1
                    continue
                drift = self._slots[slot.slot] = SlotDrift(slot.slot)
            drift.see(slot, seen.site, seen.at.timestamp(), weight)
        return self._changed()

    def _since_s(self, seen: NodeSeen) -> float:
        """Between this evaluation and the one before at its site."""
        at = seen.at.timestamp()
        before = self._last_at.get(seen.site)
        if before is None and len(self._last_at) >= MAX_SITES:
            self._last_at.pop(next(iter(self._last_at)))
        self._last_at[seen.site] = at
        return inf if before is None else abs(at - before)

    def _count_dead(self, slots: tuple[SlotSeen, ...]) -> None:
        """A source is silent in an evaluation when none of its queries was answered."""
        answered = {slot.source for slot in slots if slot.failure not in UNANSWERED}
        silent = {slot.source: slot for slot in slots if slot.failure in UNANSWERED}
        for source in answered:
            self._dead.pop(source, None)
        for source in silent.keys() - answered:
            times, _ = self._dead.get(source, (0, ""))
            slot = silent[source]
            self._dead[source] = (times + 1, f"{slot.failure}: {slot.detail}")

    def _changed(self) -> Change:
        now = {(alarm.kind, alarm.subject): alarm for alarm in self._alarms()}
        opened = tuple(alarm for key, alarm in now.items() if key not in self.open)
        ended = tuple(key for key in self.open if key not in now)
        self.open = now
        return Change(opened, ended)

    def _alarms(self) -> Iterator[Alarm]:
        dead = False
        for source, (times, why) in self._dead.items():
            if times >= DEAD:
                dead = True
                yield Alarm(
                    WatchKind.SOURCE_DEAD,
                    source,
                    f"{source} has not answered {times} evaluations in a row: {why}",
                    {"source": source, "times": times},
                )
        for word, share in self._words.items():
            if not share.open or (word == UNSERVED and dead):
                continue
            evidence = {"recent": share.recent, "usual": share.usual}
            told = f"{share.recent:.0%} of the newest evaluations, {share.usual:.1%} before"
            if word in (FAILING, UNSERVED):
                what = "its tool fails" if word == FAILING else "its sources fail it"
                reason = {**evidence, "reason": self._reason}
                yield Alarm(
                    WatchKind.FAILURES, word, f"{what} in {told}; last {self._reason}", reason
                )
            else:
                yield Alarm(WatchKind.VERDICTS_MOVED, word, f"it says {word} in {told}", evidence)
        for slot in self._slots.values():
            yield from slot.alarms()

    # --- figures for metrics ----------------------------------------------------------------------

    def verdict_shares(self) -> Mapping[str, float]:
        """Of the newest evaluations, by word; with `failed` for tools that failed."""
        shares = {word: self._words[word].recent_all for word in WORDS}
        return {**shares, "failed": self._words[FAILING].recent_all}

    def null_share(self) -> float:
        """The highest of any field at any site, of the newest answers."""
        return max(
            (share for slot in self._slots.values() for share in slot.shares()[0]), default=0
        )

    def empty_share(self) -> float:
        """The highest of any query at any site, of the newest answers."""
        return max(
            (share for slot in self._slots.values() for share in slot.shares()[1]), default=0
        )

    @property
    def unwatched(self) -> int:
        """Answers, fields and figures that there was no room for."""
        return self.left_out + sum(slot.left_out for slot in self._slots.values())

    # --- state ------------------------------------------------------------------------------------

    def state(self) -> bytes:
        """For `of`: a few tens of KB."""
        return orjson.dumps(
            {
                "format": FORMAT,
                "tool": self.tool_sha256,
                "evaluations": self.evaluations,
                "left_out": self.left_out,
                "words": {word: share.document() for word, share in self._words.items()},
                "slots": {name: slot.document() for name, slot in self._slots.items()},
                "dead": {source: list(one) for source, one in self._dead.items()},
                "last_at": self._last_at,
                "reason": self._reason,
                "open": [[*one[:3], dict(one.evidence)] for one in self.open.values()],
            }
        )

    @classmethod
    def of(cls, node: NodeId, state: bytes) -> Self:
        """Raises ValueError for what is no state of this version."""
        try:
            document = orjson.loads(state)
            if document["format"] != FORMAT:
                raise ValueError(f"a state of format {document['format']!r}")
            return cls._read(node, document)
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"no state of a watched node: {error}") from error

    @classmethod
    def _read(cls, node: NodeId, document: Mapping[str, Any]) -> Self:
        made = cls(node)
        made.tool_sha256 = document["tool"]
        made.evaluations, made.left_out = document["evaluations"], document["left_out"]
        made._words = {word: Share.of(document["words"][word]) for word in _new_words()}
        made._slots = {name: SlotDrift.of(name, one) for name, one in document["slots"].items()}
        made._dead = {source: (times, why) for source, (times, why) in document["dead"].items()}
        made._last_at = {site: float(at) for site, at in document["last_at"].items()}
        made._reason = document["reason"]
        for kind, subject, detail, evidence in document["open"]:
            alarm = Alarm(WatchKind(kind), subject, detail, evidence)
            made.open[alarm.kind, subject] = alarm
        return made


def _weight(since_s: float, new_s: float) -> float:
    return max(LEAST_WEIGHT, min(1.0, since_s / new_s))


def _new_words() -> dict[str, Share]:
    return {word: Share() for word in (*WORDS, FAILING, UNSERVED)}


def _is(word: str, seen: NodeSeen) -> bool:
    if word == FAILING:
        return seen.failure in TOOL_FAILURES
    if word == UNSERVED:
        return seen.failure in UNANSWERED
    return seen.word == word
