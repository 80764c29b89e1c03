"""CloudEvents 1.0 over HTTP: structured, batch and binary mode.

Identity is `source` and `id` alone, because the specification makes the pair unique: the same
event sent again with another `time` is the same alert. So `starts_at_ns` is always 0.

An event resolves when its `data.status` is "resolved" (in any case) or its `type` ends in
".resolved". It ends the occurrence that the event with the same `source` and the id in
`data.resolves` opened; without `data.resolves`, the one of its own id.

Labels are `source`, `type`, `subject` and the extension attributes, over them the plain values of
`data`, over them `data.labels`.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from triage.errors import PayloadError
from triage.intake.batch import read_entries
from triage.intake.documents import (
    MAX_LABEL_NAME,
    MAX_LABEL_VALUE,
    Document,
    annotation_map,
    as_list,
    as_object,
    at_most,
    bounded_text,
    digest,
    dump,
    load,
    scalar_text,
    text_map,
    under,
)
from triage.intake.instants import moment, optional_instant
from triage.intake.request import IntakeRequest, Parsed
from triage.model.alert import Arrival, ArrivalKind

if TYPE_CHECKING:
    from triage.intake.fields import FieldMap

MAX_ATTRIBUTE = 2_048  # characters of id, source and type

_STRUCTURED = "application/cloudevents"
_BATCH = "application/cloudevents-batch"
_HEADER = "ce-"
_SINGLE_OCCURRENCE_NS = 0
_SHOWN = ("source", "type", "subject")
_CORE = {
    *_SHOWN,
    *("specversion", "id", "time", "datacontenttype", "dataschema", "data", "data_base64"),
}
_QUOTED = re.compile(r"\\(.)", re.DOTALL)

NameOf = Callable[[str], str]
"""An attribute's name to its path in what the sender sent."""


def parse_cloudevents(request: IntakeRequest, field_map: FieldMap) -> Parsed:
    """Raises PayloadError when nothing in the request can be an alert."""
    media_type = _media_type(request)
    if media_type.startswith(_BATCH):
        return _parse_batch(request, field_map, as_list(load(request.body, "body"), "body"))
    if not media_type.startswith(_STRUCTURED) and any(
        name.startswith(_HEADER) for name in request.headers
    ):
        event = _from_headers(request, media_type)
        arrival = _read_event(request, field_map, event, "", lambda name: under("", _HEADER + name))
        return Parsed(arrivals=(arrival,))
    document = load(request.body, "body")
    if isinstance(document, list):
        return _parse_batch(request, field_map, document)
    event = as_object(document, "body")
    return Parsed(
        arrivals=(_read_event(request, field_map, event, "", lambda name: under("", name)),)
    )


def _parse_batch(request: IntakeRequest, field_map: FieldMap, events: list[Any]) -> Parsed:
    arrivals, rejected = read_entries(
        request,
        events,
        "",
        lambda event, place: _read_event(
            request, field_map, event, place, lambda name: under(place, name)
        ),
    )
    return Parsed(arrivals=tuple(arrivals), rejected=tuple(rejected))


def _read_event(
    request: IntakeRequest, field_map: FieldMap, event: Document, place: str, name_of: NameOf
) -> Arrival:
    if event.get("specversion") != "1.0":
        raise PayloadError(name_of("specversion"), 'expected "1.0"')
    source, event_id, event_type = (
        _required(event, name, name_of) for name in ("source", "id", "type")
    )
    time_ns = optional_instant(event.get("time"), name_of("time"))
    data_place = under(place, "data")
    data = _data(event, name_of, data_place)
    decoded = {key: value for key, value in event.items() if key != "data_base64"}
    decoded["data"] = data
    details = data if isinstance(data, dict) else {}
    mapped = field_map.read(decoded, place)
    resolves = _resolves(details, event_type, data_place)
    time = None if time_ns is None else moment(time_ns)
    return Arrival(
        kind=ArrivalKind.FIRING if resolves is None else ArrivalKind.RESOLVED,
        integration=request.integration,
        tenant=request.tenant,
        fingerprint=digest(source, resolves or event_id),
        starts_at_ns=_SINGLE_OCCURRENCE_NS,
        observed_at=time,
        alarm=mapped.alarm,
        site=mapped.site,
        entity=mapped.entity,
        severity=mapped.severity,
        fired_at=time or request.received_at,
        labels=_labels(event, details, data_place, name_of),
        annotations=annotation_map(
            _object_or_none(details.get("annotations")), under(data_place, "annotations")
        ),
        raw=dump(event, place or "body"),
    )


def _required(event: Document, name: str, name_of: NameOf) -> str:
    value = event.get(name)
    if not isinstance(value, str) or not value:
        raise PayloadError(name_of(name), "is required, as non-empty text")
    return bounded_text(value, name_of(name), MAX_ATTRIBUTE)


def _resolves(data: Document, event_type: str, place: str) -> str | None:
    """The id of the event whose occurrence ends, "" for its own; None when nothing ends."""
    status = data.get("status")
    said = isinstance(status, str) and status.strip().lower() == "resolved"
    if not said and not event_type.lower().endswith(".resolved"):
        return None
    resolves = data.get("resolves")
    if resolves is None:
        return ""
    if not isinstance(resolves, str):
        raise PayloadError(under(place, "resolves"), "expected the id of an event, as text")
    return bounded_text(resolves, under(place, "resolves"), MAX_ATTRIBUTE)


def _labels(event: Document, data: Document, data_place: str, name_of: NameOf) -> dict[str, str]:
    labels: dict[str, str] = {}
    for name, value in event.items():
        text = scalar_text(value) if name in _SHOWN or name not in _CORE else None
        if text is not None:
            label = bounded_text(name, name_of(name), MAX_LABEL_NAME)
            labels[label] = bounded_text(text, name_of(name), MAX_LABEL_VALUE)
    plain = {key: value for key, value in data.items() if scalar_text(value) is not None}
    labels |= text_map(plain, data_place)
    labels |= text_map(_object_or_none(data.get("labels")), under(data_place, "labels"))
    return at_most(labels, data_place, "labels")


def _object_or_none(value: object) -> object:
    """Data is the sender's own: what it calls labels need not be an object."""
    return value if isinstance(value, dict) else None


def _data(event: Document, name_of: NameOf, place: str) -> Any:
    """Decoded data: JSON values, or text, or None where it is neither."""
    encoded = event.get("data_base64")
    if encoded is None:
        return event.get("data")
    field = name_of("data_base64")
    if event.get("data") is not None:
        raise PayloadError(field, "stands beside data: send one of them")
    if not isinstance(encoded, str):
        raise PayloadError(field, "expected base64 text")
    try:
        body = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError) as error:
        raise PayloadError(field, "is not base64") from error
    return _decoded(body, event.get("datacontenttype"), place)


def _decoded(body: bytes, content_type: object, place: str) -> Any:
    if not body:
        return None
    media_type = content_type.partition(";")[0].strip() if isinstance(content_type, str) else ""
    if media_type in {"", "application/json"} or media_type.endswith("+json"):
        return load(body, place)
    try:
        return body.decode()
    except UnicodeDecodeError:
        return None


def _from_headers(request: IntakeRequest, media_type: str) -> Document:
    """A binary-mode request as the structured event it stands for."""
    event: Document = {
        name.removeprefix(_HEADER): _header_value(value, name)
        for name, value in request.headers.items()
        if name.startswith(_HEADER)
    }
    event.pop("data", None)
    event.pop("data_base64", None)
    event.pop("datacontenttype", None)
    if media_type:
        event["datacontenttype"] = media_type
    data = _decoded(request.body, media_type, "body")
    if data is not None:
        event["data"] = data
    elif request.body:
        event["data_base64"] = base64.b64encode(request.body).decode()
    return event


def _header_value(value: str, name: str) -> str:
    """One round of quoted-string and percent-decoding, as the HTTP binding has it (3.1.3.2)."""
    text = value.strip()
    if len(text) > 1 and text[0] == text[-1] == '"':
        text = _QUOTED.sub(r"\1", text[1:-1])
    try:
        return unquote(text, errors="strict")
    except UnicodeDecodeError as error:
        raise PayloadError(name, "is not percent-encoded UTF-8") from error


def _media_type(request: IntakeRequest) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()
