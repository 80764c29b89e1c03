"""What the senders send: a pure function of the options, in five payload formats.

Some resolves leave before the firing they end, some soon after; some messages are sent twice. Each
alert has an entity of its own, which is how the source's record names it.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson

from bench.chaos.options import Options
from bench.load.small import ALARM
from triage.intake.fields import default_field_maps
from triage.intake.formats import parse
from triage.intake.request import IntakeRequest
from triage.model.alert import ArrivalKind, episode_id, occurrence_id

FIRING, RESOLVE, AGAIN = "firing", "resolve", "again"
FORMATS: Mapping[str, float] = {
    "native": 0.4,
    "alertmanager": 0.25,
    "grafana": 0.1,
    "pagerduty": 0.15,
    "cloudevents": 0.1,
}
SEVERITIES: Mapping[str, float] = {"critical": 5, "error": 15, "warning": 50, "info": 30}
OVERTAKING, RESOLVED, AGAIN_SHARE = 0.05, 0.1, 0.08
MOST_IN_GROUP = 4
FILL_GROUP = 20
FILL_FIRST = 1_000_000  # number of the first alert of the first burst
FILL_STEP = 10_000

_DAY = datetime(2026, 3, 1, 12, tzinfo=UTC)
_MAPS = default_field_maps()


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One request. `due_s` is from the start of the run; `ids` are the alerts it speaks of."""

    number: int
    due_s: float
    kind: str
    path: str
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)
    ids: tuple[str, ...]


def make_messages(options: Options) -> Sequence[Message]:
    """In the order in which they are due."""
    found = sorted(_messages(options), key=lambda one: (one[0], one[1].kind))
    return [
        Message(
            number=number,
            due_s=due_s,
            kind=each.kind,
            path=each.path,
            body=each.body,
            headers=each.headers,
            ids=each.ids,
        )
        for number, (due_s, each) in enumerate(found)
    ]


def fill_messages(options: Options, fault: int, alerts: int) -> Sequence[Message]:
    """The alerts of one burst, for the plan's `fault`-th fault, some in each request."""
    draw = random.Random(f"{options.seed}/fill/{fault}")
    first = FILL_FIRST + fault * FILL_STEP
    messages = []
    for start in range(first, first + alerts, FILL_GROUP):
        numbers = range(start, min(start + FILL_GROUP, first + alerts))
        severities = _severities(len(numbers), draw)
        one = _Of("native", tuple(numbers), severities).message(FIRING)
        messages.append(
            Message(number=start, due_s=0.0, kind=FIRING, path=one.path, body=one.body, ids=one.ids)
        )
    return messages


def entity(number: int) -> str:
    return f"c-{number}"


@dataclass(frozen=True, slots=True)
class _Draft:
    kind: str
    path: str
    body: bytes
    headers: Mapping[str, str]
    ids: tuple[str, ...]


def _messages(options: Options) -> Iterator[tuple[float, _Draft]]:
    draw = random.Random(f"{options.seed}/alerts")
    number = 0
    while number < options.alerts:
        name = draw.choices(list(FORMATS), list(FORMATS.values()))[0]
        size = draw.randint(1, MOST_IN_GROUP) if name in {"alertmanager", "grafana"} else 1
        size = min(size, options.alerts - number)
        group = _Of(name, tuple(range(number, number + size)), _severities(size, draw))
        number += size
        due, chance = draw.uniform(0.0, options.seconds), draw.random()
        firing = group.message(FIRING)
        if chance < OVERTAKING:
            yield due, group.message(RESOLVE)
            due += draw.uniform(0.05, 1.5)
        elif chance < OVERTAKING + RESOLVED:
            yield due + draw.uniform(0.0, 3.0), group.message(RESOLVE)
        elif chance < OVERTAKING + RESOLVED + AGAIN_SHARE:
            yield (
                due + draw.uniform(0.01, 3.0),
                _Draft(AGAIN, firing.path, firing.body, firing.headers, firing.ids),
            )
        yield due, firing


def _severities(count: int, draw: random.Random) -> tuple[str, ...]:
    return tuple(draw.choices(list(SEVERITIES), list(SEVERITIES.values()), k=count))


@dataclass(frozen=True, slots=True)
class _Of:
    """The alerts with these numbers, in one format."""

    format: str
    numbers: tuple[int, ...]
    severities: tuple[str, ...]

    def message(self, kind: str) -> _Draft:
        resolved = kind == RESOLVE
        each = list(zip(self.numbers, self.severities, strict=True))
        headers = {"content-type": "application/json"}
        body: Any
        match self.format:
            case "alertmanager" | "grafana":
                body = _group(each, resolved, self.format)
            case "pagerduty":
                body = _pagerduty(*each[0], resolved)
            case "cloudevents":
                body = _cloudevent(*each[0], resolved)
                headers = {"content-type": "application/cloudevents+json"}
            case _:
                body = [_native(number, severity, resolved) for number, severity in each]
        path = "/api/v1/alerts" + ("" if self.format == "native" else f"/{self.format}")
        encoded = orjson.dumps(body)
        return _Draft(kind, path, encoded, headers, _ids(self.format, encoded, headers))


def _fired_at(number: int) -> datetime:
    return _DAY + timedelta(seconds=number % 80_000)


def _stamp(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")


def _native(number: int, severity: str, resolved: bool) -> dict[str, Any]:
    document: dict[str, Any] = {
        "alarm": ALARM,
        "fired_at": _stamp(_fired_at(number)),
        "site": "north",
        "entity": entity(number),
        "severity": severity,
        "id": f"alert-{number}",
        "labels": {"line": f"l{number % 7}"},
    }
    if resolved:
        document |= {
            "status": "resolved",
            "resolved_at": _stamp(_fired_at(number) + timedelta(minutes=5)),
        }
    return document


def _group(each: Sequence[tuple[int, str]], resolved: bool, name: str) -> dict[str, Any]:
    status = "resolved" if resolved else "firing"
    alerts = []
    for number, severity in each:
        fired_at = _fired_at(number)
        alerts.append(
            {
                "status": status,
                "labels": {
                    "alertname": ALARM,
                    "site": "north",
                    "entity": entity(number),
                    "severity": severity,
                },
                "annotations": {"summary": "the backlog grows"},
                "startsAt": _stamp(fired_at),
                "endsAt": (
                    _stamp(fired_at + timedelta(minutes=5)) if resolved else "0001-01-01T00:00:00Z"
                ),
                "fingerprint": f"{number:016x}",
            }
        )
    group = {"version": "4", "groupKey": f"{{}}:{each[0][0]}", "status": status, "alerts": alerts}
    return {**group, "version": "1", "orgId": 1} if name == "grafana" else group


def _pagerduty(number: int, severity: str, resolved: bool) -> dict[str, Any]:
    # With times of their own, so that a trigger which comes late is known for what it is.
    at = _fired_at(number) + (timedelta(minutes=5) if resolved else timedelta())
    return {
        "routing_key": "bench",
        "event_action": "resolve" if resolved else "trigger",
        "dedup_key": f"key-{number}",
        "payload": {
            "summary": "the backlog grows",
            "source": entity(number),
            "severity": severity,
            "timestamp": _stamp(at),
            "custom_details": {"alertname": ALARM, "site": "north"},
        },
    }


def _cloudevent(number: int, severity: str, resolved: bool) -> dict[str, Any]:
    return {
        "specversion": "1.0",
        "id": f"event-{number}",
        "source": "/bench",
        "type": "plant.backlog",
        "time": _stamp(_fired_at(number)),
        "data": {
            "alertname": ALARM,
            "site": "north",
            "entity": entity(number),
            "severity": severity,
            "status": "resolved" if resolved else "firing",
        },
    }


def _ids(name: str, body: bytes, headers: Mapping[str, str]) -> tuple[str, ...]:
    """The ids that these alerts have by their own identity, whatever happens to them."""
    request = IntakeRequest(
        format=name, body=body, headers=headers, received_at=_DAY, integration=name
    )
    ids: list[str] = []
    for arrival in parse(request, _MAPS[name]).arrivals:
        assert arrival.kind is not ArrivalKind.EVENT, arrival
        key = (arrival.integration, arrival.tenant, arrival.fingerprint)
        if arrival.starts_at_ns is None:
            ids.append(episode_id(*key, 1))  # all triggers of a key precede its one resolve
        else:
            ids.append(occurrence_id(*key, arrival.starts_at_ns))
    return tuple(ids)
