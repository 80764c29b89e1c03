"""Alertmanager webhooks, version 4, and the group that Grafana's webhooks share with them.

Identity is an alert's `fingerprint` and `startsAt`; the group's own status says nothing about an
alert. `commonLabels` are not merged: every alert carries all its labels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from triage.errors import PayloadError
from triage.intake.batch import delivery_key, read_entries
from triage.intake.documents import (
    MAX_RAW_BYTES,
    Document,
    annotation_map,
    as_list,
    as_object,
    digest,
    dump,
    key_text,
    load,
    text_map,
    under,
)
from triage.intake.instants import instant, moment, optional_instant
from triage.intake.request import IntakeRequest, Parsed
from triage.model.alert import Arrival, ArrivalKind, Severity

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from triage.intake.fields import FieldMap

MAX_TRUNCATED = 2**31 - 1

_FNV_OFFSET = 0xCBF29CE484222325
_FNV_PRIME = 0x100000001B3
_FNV_MASK = 0xFFFFFFFFFFFFFFFF


def parse_alertmanager(request: IntakeRequest, field_map: FieldMap) -> Parsed:
    """Raises PayloadError when no alert of the group can be one."""
    return read_group(request, field_map, as_object(load(request.body, "body"), "body"))


def read_group(request: IntakeRequest, field_map: FieldMap, group: Document) -> Parsed:
    """A notification's alerts, and an EVENT when the sender left some out."""
    arrivals, rejected = read_entries(
        request,
        as_list(group.get("alerts"), "alerts"),
        "alerts",
        lambda entry, place: _read_alert(request, field_map, entry, place),
    )
    truncated = _count(group.get("truncatedAlerts"))
    if truncated:
        starts_ns = [a.starts_at_ns for a in arrivals if a.starts_at_ns is not None]
        arrivals.append(_truncated_event(request, group, truncated, starts_ns))
    return Parsed(arrivals=tuple(arrivals), rejected=tuple(rejected), truncated=truncated)


def labels_fingerprint(labels: Mapping[str, str]) -> str:
    """What Alertmanager itself calls these labels: FNV-1a over the sorted pairs, each part ended
    by 0xff (prometheus/common, model/signature.go). So a sender that leaves `fingerprint` out
    still names the same occurrence as one that does not."""
    state = _FNV_OFFSET
    for name in sorted(labels, key=str.encode):
        for byte in name.encode() + b"\xff" + labels[name].encode() + b"\xff":
            state = ((state ^ byte) * _FNV_PRIME) & _FNV_MASK
    return f"{state:016x}"


def _read_alert(
    request: IntakeRequest, field_map: FieldMap, entry: Document, place: str
) -> Arrival:
    kind = _kind(entry.get("status"), under(place, "status"))
    labels = text_map(entry.get("labels"), under(place, "labels"))
    mapped = field_map.read(entry, place)
    starts_at_ns = instant(entry.get("startsAt"), under(place, "startsAt"))
    # A firing alert's endsAt is the zero time, or a guess at when it would expire.
    ends_at_ns = (
        optional_instant(entry.get("endsAt"), under(place, "endsAt"))
        if kind is ArrivalKind.RESOLVED
        else None
    )
    fingerprint = key_text(entry.get("fingerprint"), under(place, "fingerprint"))
    return Arrival(
        kind=kind,
        integration=request.integration,
        tenant=request.tenant,
        fingerprint=fingerprint or labels_fingerprint(labels),
        starts_at_ns=starts_at_ns,
        observed_at=None if ends_at_ns is None else moment(ends_at_ns),
        alarm=mapped.alarm,
        site=mapped.site,
        entity=mapped.entity,
        severity=mapped.severity,
        fired_at=moment(starts_at_ns),
        labels=labels,
        annotations=annotation_map(entry.get("annotations"), under(place, "annotations")),
        raw=dump(entry, place),
    )


def _kind(status: object, field: str) -> ArrivalKind:
    match status.lower() if isinstance(status, str) else status:
        case "firing":
            return ArrivalKind.FIRING
        case "resolved":
            return ArrivalKind.RESOLVED
        case _:
            raise PayloadError(field, 'expected "firing" or "resolved"')


def _count(value: Any) -> int:
    """Tolerant: a strange count must not cost the alerts that did come."""
    if isinstance(value, bool) or not isinstance(value, int | float) or value < 1:
        return 0
    return int(min(value, MAX_TRUNCATED))


def _truncated_event(
    request: IntakeRequest, group: Document, count: int, starts_ns: Sequence[int]
) -> Arrival:
    """Told once for each set of alerts that came and number that did not: the other half of a
    highly available pair, and a repeat of the same notification, tell nothing new."""
    key = group.get("groupKey")
    group_key = key if isinstance(key, str) else ""
    kept: dict[str, Any] = {"truncatedAlerts": count}
    for name in ("groupKey", "groupLabels", "commonLabels", "receiver", "externalURL"):
        if name in group:
            kept[name] = group[name]
    try:
        raw = dump(kept, "body")
    except PayloadError:
        raw = orjson.dumps({"truncatedAlerts": count, "groupKey": group_key[: MAX_RAW_BYTES // 8]})
    return Arrival(
        kind=ArrivalKind.EVENT,
        event="truncated",
        integration=request.integration,
        tenant=request.tenant,
        fingerprint=digest("group", group_key),
        starts_at_ns=None,
        delivery_key=delivery_key(request, "truncated", group_key, sorted(starts_ns), count),
        alarm="",
        site="",
        entity="",
        severity=Severity.UNKNOWN,
        fired_at=request.received_at,
        annotations={"truncatedAlerts": str(count)},
        raw=raw,
    )
