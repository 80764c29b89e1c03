"""PagerDuty Events API v2: trigger, acknowledge, resolve.

An event names its alert by `dedup_key` and states no start, so the store counts episodes. The
routing key is the sender's password: it is masked before anything is kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from triage.errors import PayloadError
from triage.intake.batch import delivery_key
from triage.intake.documents import (
    MAX_NAME,
    Document,
    annotation_map,
    as_object,
    at_most,
    dump,
    key_text,
    load,
    text_map,
)
from triage.intake.instants import moment, optional_instant
from triage.intake.request import IntakeRequest, Parsed
from triage.model.alert import Arrival, ArrivalKind
from triage.model.canonical import sha256_hex

if TYPE_CHECKING:
    from triage.intake.fields import FieldMap

_MASK = "***"
_SECRETS = ("routing_key", "service_key")
_KINDS = {
    "trigger": ArrivalKind.FIRING,
    "resolve": ArrivalKind.RESOLVED,
    "acknowledge": ArrivalKind.EVENT,
}
_LABELS = ("source", "component", "group", "class")
_ANNOTATIONS = ("client", "client_url")


def parse_pagerduty(request: IntakeRequest, field_map: FieldMap) -> Parsed:
    """One arrival; `reply` is the body PagerDuty itself would answer with.

    `alarm` is empty on an acknowledge or resolve that brings no payload. Raises PayloadError.
    """
    event = as_object(load(request.body, "body"), "body")
    for name in _SECRETS:
        if name in event:
            event[name] = _MASK
    action = event.get("event_action")
    kind = _KINDS.get(action.lower()) if isinstance(action, str) else None
    if kind is None:
        raise PayloadError("event_action", 'expected "trigger", "acknowledge" or "resolve"')
    payload = _payload(event, kind)
    observed_at_ns = optional_instant(payload.get("timestamp"), "payload.timestamp")
    body_sha256 = sha256_hex(request.body)
    key = key_text(event.get("dedup_key"), "dedup_key")
    if not key:
        if kind is not ArrivalKind.FIRING:
            raise PayloadError("dedup_key", "is missing: it says which alert is meant")
        # With its own timestamp the same body can only be the same event, sent again.
        key = body_sha256[:32] if observed_at_ns is not None else request.new_id()
    mapped = field_map.read(
        _with_short_summary(event, payload), "", alarm_required=kind is ArrivalKind.FIRING
    )
    observed_at = None if observed_at_ns is None else moment(observed_at_ns)
    arrival = Arrival(
        kind=kind,
        event="acknowledge" if kind is ArrivalKind.EVENT else "",
        integration=request.integration,
        tenant=request.tenant,
        fingerprint=key,
        starts_at_ns=None,
        observed_at=observed_at,
        delivery_key="" if observed_at is None else delivery_key(request, body_sha256),
        alarm=mapped.alarm,
        site=mapped.site,
        entity=mapped.entity,
        severity=mapped.severity,
        fired_at=observed_at or request.received_at,
        labels=_labels(payload),
        annotations={
            **annotation_map({"summary": payload.get("summary")}, "payload"),
            **annotation_map({name: event.get(name) for name in _ANNOTATIONS}, ""),
        },
        raw=dump(event, "body"),
    )
    reply = {"status": "success", "message": "Event processed", "dedup_key": key}
    return Parsed(arrivals=(arrival,), reply=reply)


def _payload(event: Document, kind: ArrivalKind) -> dict[str, Any]:
    payload = event.get("payload")
    if payload is None and kind is not ArrivalKind.FIRING:
        return {}
    return as_object(payload, "payload")


def _with_short_summary(event: Document, payload: Document) -> Document:
    """PagerDuty allows 1024 characters of summary; as the alarm's name of last resort it is cut
    rather than refused. The annotation keeps all of it."""
    summary = payload.get("summary")
    if not isinstance(summary, str) or len(summary) <= MAX_NAME:
        return event
    return {**event, "payload": {**payload, "summary": summary[:MAX_NAME]}}


def _labels(payload: Document) -> dict[str, str]:
    """`custom_details` where it is an object, and over it PagerDuty's own words."""
    details = payload.get("custom_details")
    labels = text_map(
        details if isinstance(details, dict) else None, "payload.custom_details"
    ) | text_map({name: payload.get(name) for name in _LABELS}, "payload")
    return at_most(labels, "payload.custom_details", "labels")
