"""Damaged payloads: every format's samples, broken in the ways senders, proxies and attackers do.

The stream is endless and the same for a seed. Header values are visible ASCII, so that every case
can be sent over HTTP as it is.
"""

from __future__ import annotations

import copy
import json
import random
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PAYLOADS = Path(__file__).parent / "data" / "payloads"

JSON_HEADERS = {"content-type": "application/json"}


class Base(NamedTuple):
    format: str
    headers: dict[str, str]
    document: Any


_SPLICES = {
    "@deep@": b"[" * 300 + b"]" * 300,
    "@deeper@": b'{"a":' * 3000 + b"1" + b"}" * 3000,
    "@unclosed@": b"[" * 5000,
    "@huge@": b"9" * 400,
    "@huge-float@": b"1e308",
    "@infinite@": b"1e999",
    "@wide-int@": b"18446744073709551616",
    "@nan@": b"NaN",
}
"""Put into the bytes, because no JSON writer would."""

_VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2**53 + 1, 0.5, -1e-300, "", " ", "\0", "a\0b", "\ud800",
    "😀" * 90, "é\u202e\u0000", "x" * 300, "x" * 5000, "x" * 300_000, [], {},
    [[]], [None], {"": ""}, ["a"] * 200,
    {"a": {"b": {"c": 1}}}, {str(n): n for n in range(200)}, {"k" * 300: "v"}, {"n\0": "v"},
    "resolved", "firing", "trigger", "resolve", "acknowledge", "OK", "ALARM", "INSUFFICIENT_DATA",
    "0001-01-01T00:00:00Z", "2026-06-01T12:31:00", "9999-12-31T23:59:59.999999999-23:59",
    "0000-00-00T00:00:00Z", "2026-02-30T00:00:00Z", "1969-12-31T23:59:59Z",
    "2026-06-01T12:31:00+0200",
    "2016-12-31T23:59:60Z", "٢٠٢٦-06-01T12:31:00Z", "http://sns.us-east-1.amazonaws.com@evil/x.pem",
    "{}", "null", "[1]", '{"NewStateValue": "ALARM"}', "bm90IGpzb24=", "e30=", "%%%",
    *_SPLICES,
)  # fmt: skip

_KEYS = (
    "alarm", "fired_at", "id", "status", "labels", "annotations", "alerts", "Records", "Type",
    "data",
    "data_base64", "dedup_key", "payload", "fingerprint", "truncatedAlerts", "groupKey", "orgId",
    "specversion", "time", "routing_key", "a.b", "", "\0", "k" * 400,
)  # fmt: skip

_HEADER_VALUES = (
    "", "1.0", "%", "%00", "%ff%fe", "%E2%82%AC", '"quoted \\" text"', '"', "x" * 3000,
    "application/json",
    "application/cloudevents+json", "application/cloudevents-batch+json; charset=utf-8",
    "text/plain",
    "2026-06-01T12:31:00Z", "0001-01-01T00:00:00Z", "Notification", "%ED%A0%80",
)  # fmt: skip

_BYTES = (b"\x00", b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xef\xbb\xbf", b'"', b"{", b"]", b",",
          b"\\u0000", b"\\ud800", b"\n")  # fmt: skip


def mutations(seed: int) -> Iterator[tuple[str, dict[str, str], bytes]]:
    """(format, headers, body), for ever."""
    rng = random.Random(seed)
    bases = base_payloads()
    while True:
        base = rng.choice(bases)
        headers = dict(base.headers)
        document = copy.deepcopy(base.document)
        for _ in range(rng.choice((1, 1, 1, 2, 3, 6))):
            document = _mutate_document(rng, document)
        body = _encode(document)
        if rng.random() < 0.2:
            body = _mutate_bytes(rng, body)
        if headers != JSON_HEADERS and rng.random() < 0.4:
            _mutate_headers(rng, headers)
        yield base.format, headers, body


def base_payloads() -> list[Base]:
    """Whole payloads: every sample, and the shapes that the samples do not show."""

    def stored(name: str) -> Any:
        return json.loads((PAYLOADS / f"{name}.json").read_text())

    event = stored("cloudevents-1.0-structured")
    lambda_event = stored("sns-cloudwatch-alarm-lambda")
    notification = lambda_event["Records"][0]["Sns"]
    native = {
        "alarm": "DiskFilling",
        "fired_at": "2026-06-01T12:31:00.123456789+02:00",
        "site": "east",
        "entity": "db-1",
        "severity": "critical",
        "labels": {"mountpoint": "/var", "k8s.io/name": "db", "usage": 0.97, "ro": False},
        "annotations": {"summary": "filling"},
    }
    cloud = {"content-type": "application/cloudevents+json"}
    batch = {"content-type": "application/cloudevents-batch+json; charset=utf-8"}
    binary = JSON_HEADERS | {
        f"ce-{name}": event[name] for name in ("specversion", "id", "source", "type", "time")
    }
    raw_delivery = {"content-type": "text/plain", "x-amz-sns-message-id": "95df01b4"}
    handshake = {
        "Type": "SubscriptionConfirmation",
        "MessageId": "165545c9",
        "Token": "2336412f37",
        "TopicArn": "arn:aws:sns:us-west-2:123456789012:alarms",
        "Message": "You have chosen to subscribe.",
        "SubscribeURL": "https://sns.us-west-2.amazonaws.com/?Action=ConfirmSubscription&Token=23",
        "Timestamp": "2012-04-26T20:45:04.751Z",
        "SignatureVersion": "1",
    }
    acknowledge = stored("pagerduty-events-v2-resolve") | {"event_action": "acknowledge"}
    return [
        Base("alertmanager", JSON_HEADERS, stored("alertmanager-v4-firing-truncated")),
        Base("alertmanager", JSON_HEADERS, stored("alertmanager-v4-mixed-resolved")),
        Base("grafana", JSON_HEADERS, stored("grafana-webhook-v1")),
        Base("pagerduty", JSON_HEADERS, stored("pagerduty-events-v2-trigger")),
        Base("pagerduty", JSON_HEADERS, stored("pagerduty-events-v2-resolve")),
        Base("pagerduty", JSON_HEADERS, acknowledge),
        Base("cloudevents", cloud, event),
        Base("cloudevents", batch, [event, event | {"id": "B", "type": "x.resolved"}]),
        Base("cloudevents", binary, event["data"]),
        Base("sns", JSON_HEADERS, lambda_event),
        Base("sns", {"content-type": "text/plain; charset=UTF-8"}, notification),
        Base("sns", raw_delivery, json.loads(notification["Message"])),
        Base("sns", {"content-type": "text/plain; charset=UTF-8"}, handshake),
        Base("native", JSON_HEADERS, native),
        Base("native", JSON_HEADERS, [native, native | {"id": 7, "status": "resolved"}]),
    ]


def _encode(document: Any) -> bytes:
    body = json.dumps(document).encode()
    for marker, splice in _SPLICES.items():
        body = body.replace(f'"{marker}"'.encode(), splice)
    return body


def _mutate_document(rng: random.Random, document: Any) -> Any:
    places = list(_containers(document))
    if not places or rng.random() < 0.02:
        return copy.deepcopy(rng.choice(_VALUES))
    container = rng.choice(places)
    rng.choice(_OPERATIONS)(rng, container)
    return document


def _containers(document: Any) -> Iterator[Any]:
    if isinstance(document, dict):
        yield document
        for value in document.values():
            yield from _containers(value)
    elif isinstance(document, list):
        yield document
        for value in document:
            yield from _containers(value)


def _slot(rng: random.Random, container: Any) -> Any:
    """A key or index in use, None when there is none."""
    keys = list(container) if isinstance(container, dict) else list(range(len(container)))
    return rng.choice(keys) if keys else None


def _delete(rng: random.Random, container: Any) -> None:
    if (slot := _slot(rng, container)) is not None:
        del container[slot]


def _replace(rng: random.Random, container: Any) -> None:
    if (slot := _slot(rng, container)) is not None:
        container[slot] = copy.deepcopy(rng.choice(_VALUES))


def _insert(rng: random.Random, container: Any) -> None:
    value = copy.deepcopy(rng.choice(_VALUES))
    if isinstance(container, dict):
        container[rng.choice(_KEYS)] = value
    else:
        container.insert(rng.randint(0, len(container)), value)


def _duplicate(rng: random.Random, container: Any) -> None:
    if (slot := _slot(rng, container)) is None:
        return
    value = copy.deepcopy(container[slot])
    if isinstance(container, dict):
        container[rng.choice(_KEYS)] = value
    else:
        container += [value] * rng.choice((1, 2, 20))


def _spoil_text(rng: random.Random, container: Any) -> None:
    """Change a string where it stands; JSON inside a string is opened and mutated too."""
    slot = _slot(rng, container)
    if slot is None or not isinstance(text := container[slot], str):
        return
    if text.startswith("{") and rng.random() < 0.8:
        try:
            container[slot] = json.dumps(_mutate_document(rng, json.loads(text)))
        except ValueError:
            container[slot] = text[: len(text) // 2]
        return
    cut = rng.randint(0, len(text))
    middle = rng.choice(("", "\0", "\ud800", "\U0001f4a5", "\n", ".", " ", "9", "-", "Z", "\u2028"))
    container[slot] = text[:cut] + middle + text[cut + rng.randint(0, 2) :]


_OPERATIONS: tuple[Callable[[random.Random, Any], None], ...] = (
    _delete,
    _replace,
    _replace,
    _insert,
    _duplicate,
    _spoil_text,
    _spoil_text,
)


def _mutate_bytes(rng: random.Random, body: bytes) -> bytes:
    if not body or rng.random() < 0.02:
        return b""
    at = rng.randrange(len(body))
    match rng.randrange(3):
        case 0:
            return body[:at]
        case 1:
            return body[:at] + rng.choice(_BYTES) + body[at:]
        case _:
            return body[:at] + bytes([rng.randrange(256)]) + body[at + 1 :]


def _mutate_headers(rng: random.Random, headers: dict[str, str]) -> None:
    name = rng.choice((*headers, "ce-extension", "ce-subject", "ce-data", "x-amz-sns-message-type"))
    if rng.random() < 0.3:
        headers.pop(name, None)
    else:
        headers[name] = rng.choice(_HEADER_VALUES)
