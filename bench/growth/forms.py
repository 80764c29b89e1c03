"""The stored documents of specimens as forms with blanks, made from one real document each."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache

from bench.growth.specimen import (
    NODES,
    Identity,
    decision,
    evaluated_at,
    evidence,
    query,
    window_start,
)
from triage.adapters.store.decisions import NOT_IN_HEAD
from triage.model.canonical import canonical_json, sha256_hex
from triage.model.decision import Decision, Outcome, decision_document, decision_sha256
from triage.model.query import query_digest, query_document

_TWO_TIMES = datetime(2011, 1, 1, tzinfo=UTC), datetime(2012, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Blanks:
    """A text with its blanks: `order` is which value each of them takes."""

    text: bytes
    order: tuple[str, ...]

    @classmethod
    def of(cls, text: bytes, marks: Mapping[str, str]) -> Blanks:
        """`marks` maps what stands in the text for a value to that value's name."""
        pattern = re.compile("|".join(map(re.escape, marks)).encode())
        order = tuple(marks[found.decode()] for found in pattern.findall(text))
        return cls(pattern.sub(b"%b", text.replace(b"%", b"%%")), order)

    def fill(self, values: Mapping[str, bytes]) -> bytes:
        return self.text % tuple([values[name] for name in self.order])


@dataclass(frozen=True, slots=True, kw_only=True)
class Filled:
    document: bytes
    head: str
    decision_sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """Of all decisions with one outcome."""

    like: Decision
    queries: tuple[Blanks, ...]
    document: Blanks
    head: Blanks

    def fill(self, one: Identity, digests: Sequence[str]) -> Filled:
        """`digests` are those of the answers, by node."""
        sealed = self._sealed(one)
        values = _values(one)
        asked = [sha256_hex(blanks.fill(values)) for blanks in self.queries]
        for node in range(NODES):
            values[f"query {node}"] = asked[node].encode()
            values[f"answer {node}"] = digests[node].encode()
        values["decision_sha256"] = sealed.encode()
        return Filled(
            document=self.document.fill(values),
            head=self.head.fill(values).decode(),
            decision_sha256=sealed,
        )

    def _sealed(self, one: Identity) -> str:
        like = self.like
        return decision_sha256(
            alert_id=one.alert_id,
            outcome=like.outcome,
            degraded=like.degraded,
            nodes=like.nodes,
            edges=like.edges,
            actions=[action._replace(subject=one.entity) for action in like.actions],
            dropped=[
                gone._replace(action=gone.action._replace(subject=one.entity))
                for gone in like.dropped
            ],
        )


@cache
def form_of(outcome: Outcome) -> Form:
    """What stands in the document for a value is a text that nothing else in it contains."""
    one = Identity(
        alarm="~alm~",
        site="~site~",
        entity="~the~entity~",
        outcome=outcome,
        fired_at=_TWO_TIMES[0],
        storm_at=_TWO_TIMES[1],
    )
    bodies = evidence(one)
    made = decision(one, bodies)
    marks = {value.decode(): name for name, value in _values(one).items()}
    queries = tuple(
        Blanks.of(canonical_json(query_document(query(one, node))), marks) for node in range(NODES)
    )
    marks[made.decision_sha256] = "decision_sha256"
    for node, digest in enumerate(bodies):
        marks[digest] = f"answer {node}"
        marks[query_digest(query(one, node))] = f"query {node}"
    document = decision_document(made)
    whole = canonical_json(document)
    for name in NOT_IN_HEAD:
        document.pop(name)
    return Form(
        like=made,
        queries=queries,
        document=Blanks.of(whole, marks),
        head=Blanks.of(canonical_json(document), marks),
    )


def _values(one: Identity) -> dict[str, bytes]:
    return {
        "alert_id": one.alert_id.encode(),
        "alarm": one.alarm.encode(),
        "site": one.site.encode(),
        "entity": one.entity.encode(),
        **{
            name: moment.isoformat().encode()
            for name, moment in (
                ("fired_at", one.fired_at),
                ("accepted_at", one.accepted_at),
                ("evaluated_at", evaluated_at(one)),
                ("storm_at", one.storm_at),
                ("own window", window_start(one.fired_at)),
                ("storm window", window_start(one.storm_at)),
            )
        },
    }
