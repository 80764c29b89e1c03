"""CloudWatch alarms that come through Amazon SNS, in three shapes: the event a Lambda function
gets (`Records[].Sns`), a direct HTTPS delivery, and the bare alarm (raw message delivery).

ALARM fires: identity is the alarm's ARN and `StateChangeTime`. OK is an event that ends what the
alarm has open, INSUFFICIENT_DATA one that ends nothing. The handshake of a subscription is given
to the caller; nothing here asks an address. Signatures are `sns_signature`'s.
"""

from __future__ import annotations

from typing import Literal

from triage.errors import PayloadError
from triage.intake.batch import delivery_key, read_entries
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
    key_text,
    load,
    scalar_text,
    text_map,
    under,
)
from triage.intake.fields import FieldMap, lookup
from triage.intake.instants import instant, moment
from triage.intake.request import IntakeRequest, Parsed, Subscription
from triage.intake.sns_addresses import subscribe_url
from triage.model.alert import Arrival, ArrivalKind

_MESSAGE_ID_HEADER = "x-amz-sns-message-id"
_STATES: dict[str, tuple[ArrivalKind, str]] = {
    "ALARM": (ArrivalKind.FIRING, ""),
    "OK": (ArrivalKind.EVENT, "ok"),
    "INSUFFICIENT_DATA": (ArrivalKind.EVENT, "insufficient_data"),
}
_LABELS = ("AlarmName", "Region", "AWSAccountId")
_TRIGGER_LABELS = ("MetricName", "Namespace")
_DIMENSIONS = ("Dimensions", "Metrics.0.MetricStat.Metric.Dimensions")
_ANNOTATIONS = ("AlarmDescription", "NewStateReason")


def parse_sns(request: IntakeRequest, field_map: FieldMap) -> Parsed:
    """Raises PayloadError when nothing in the request is a CloudWatch alarm or a handshake."""
    document = as_object(load(request.body, "body"), "body")
    if "Records" in document:
        arrivals, rejected = read_entries(
            request,
            as_list(document["Records"], "Records"),
            "Records",
            lambda record, place: _read_notification(
                request,
                field_map,
                as_object(record.get("Sns"), under(place, "Sns")),
                under(place, "Sns"),
            ),
        )
        return Parsed(arrivals=tuple(arrivals), rejected=tuple(rejected))
    match document.get("Type"):
        case "SubscriptionConfirmation":
            return _handshake(document, "confirm")
        case "UnsubscribeConfirmation":
            return _handshake(document, "unsubscribed")
        case "Notification":
            arrival = _read_notification(request, field_map, document, "")
            return Parsed(arrivals=(arrival,), signed=document)
        case None if "NewStateValue" in document or "AlarmName" in document:
            header = request.headers.get(_MESSAGE_ID_HEADER)
            message_id = key_text(header, _MESSAGE_ID_HEADER)
            arrival = _read_alarm(request, field_map, document, "", message_id)
            return Parsed(arrivals=(arrival,))
        case None:
            raise PayloadError("Type", "is missing, and the body is no CloudWatch alarm either")
        case _:
            raise PayloadError(
                "Type",
                "expected Notification, SubscriptionConfirmation or UnsubscribeConfirmation",
            )


def _handshake(message: Document, kind: Literal["confirm", "unsubscribed"]) -> Parsed:
    topic_arn = key_text(message.get("TopicArn"), "TopicArn")
    if not topic_arn:
        raise PayloadError("TopicArn", "is missing: it says which topic wants to send")
    subscription = Subscription(kind=kind, topic_arn=topic_arn, url=subscribe_url(message))
    return Parsed(reply={"subscription": kind}, subscription=subscription, signed=message)


def _read_notification(
    request: IntakeRequest, field_map: FieldMap, notification: Document, place: str
) -> Arrival:
    field = under(place, "Message")
    message = notification.get("Message")
    if not isinstance(message, str):
        raise PayloadError(field, "expected a CloudWatch alarm as JSON text")
    alarm = as_object(load(message, field), field)
    message_id = key_text(notification.get("MessageId"), under(place, "MessageId"))
    return _read_alarm(request, field_map, alarm, field, message_id)


def _read_alarm(
    request: IntakeRequest, field_map: FieldMap, alarm: Document, place: str, message_id: str
) -> Arrival:
    raw = dump(alarm, place or "body")
    state = alarm.get("NewStateValue")
    meaning = _STATES.get(state) if isinstance(state, str) else None
    if meaning is None:
        raise PayloadError(under(place, "NewStateValue"), f"expected one of {', '.join(_STATES)}")
    kind, event = meaning
    mapped = field_map.read(alarm, place)
    changed_at_ns = instant(alarm.get("StateChangeTime"), under(place, "StateChangeTime"))
    changed_at = moment(changed_at_ns)
    return Arrival(
        kind=kind,
        event=event,
        ends_open_occurrences=event == "ok",
        integration=request.integration,
        tenant=request.tenant,
        fingerprint=_fingerprint(alarm, place),
        starts_at_ns=changed_at_ns if kind is ArrivalKind.FIRING else None,
        observed_at=changed_at,
        delivery_key=delivery_key(request, message_id or digest(alarm)),
        alarm=mapped.alarm,
        site=mapped.site,
        entity=mapped.entity,
        severity=mapped.severity,
        fired_at=changed_at,
        labels=_labels(alarm, place),
        annotations=annotation_map({name: alarm.get(name) for name in _ANNOTATIONS}, place),
        raw=raw,
    )


def _fingerprint(alarm: Document, place: str) -> str:
    """The ARN; for senders that have none, what an ARN is made of."""
    arn = key_text(alarm.get("AlarmArn"), under(place, "AlarmArn"))
    if arn:
        return arn
    parts = [key_text(alarm.get(name), under(place, name)) for name in reversed(_LABELS)]
    if not parts[-1]:
        raise PayloadError(under(place, "AlarmArn"), "is missing, and so is AlarmName")
    return "/".join(parts)


def _labels(alarm: Document, place: str) -> dict[str, str]:
    """The alarm's own names, over the dimensions of its metric."""
    trigger = alarm.get("Trigger")
    metric = trigger if isinstance(trigger, dict) else {}
    field = under(place, "Trigger")
    labels: dict[str, str] = {}
    for path in _DIMENSIONS:
        dimensions = lookup(metric, path)
        for index, dimension in enumerate(dimensions if isinstance(dimensions, list) else ()):
            where = f"{under(field, path)}[{index}]"
            name = scalar_text(lookup(dimension, "name"))
            value = scalar_text(lookup(dimension, "value"))
            if name and value is not None:
                name = bounded_text(name, under(where, "name"), MAX_LABEL_NAME)
                labels[name] = bounded_text(value, under(where, "value"), MAX_LABEL_VALUE)
    labels |= text_map({name: metric.get(name) for name in _TRIGGER_LABELS}, field)
    labels |= text_map({name: alarm.get(name) for name in _LABELS}, place)
    return at_most(labels, field, "labels")
