"""The project's own JSON: one alert object, or an array of them.

::

    {"alarm": "DiskFilling", "fired_at": "2026-06-01T12:31:00Z", "site": "east", "entity": "db-1",
     "severity": "critical", "labels": {…}, "annotations": {…}, "id": "4711", "status": "firing"}

`alarm` and `fired_at` are required. Identity is `id` (or `fingerprint`) and `fired_at`; without
either it is alarm, site, entity and labels. `status` is firing unless it says resolved; a resolve
repeats the `fired_at` of what it ends, and may say when in `resolved_at`. Unknown keys are kept
in the raw document.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from triage.errors import PayloadError
from triage.intake.batch import read_entries
from triage.intake.documents import (
    Document,
    annotation_map,
    digest,
    dump,
    key_text,
    load,
    text_map,
    under,
)
from triage.intake.instants import instant, moment, optional_instant
from triage.intake.request import IntakeRequest, Parsed
from triage.model.alert import Arrival, ArrivalKind

if TYPE_CHECKING:
    from triage.intake.fields import FieldMap


def parse_native(request: IntakeRequest, field_map: FieldMap) -> Parsed:
    """Raises PayloadError when nothing in the body can be an alert."""
    match load(request.body, "body"):
        case dict() as entry:
            return Parsed(arrivals=(_read_alert(request, field_map, entry, ""),))
        case list() as entries:
            arrivals, rejected = read_entries(
                request,
                entries,
                "",
                lambda entry, place: _read_alert(request, field_map, entry, place),
            )
            return Parsed(arrivals=tuple(arrivals), rejected=tuple(rejected))
        case _:
            raise PayloadError("body", "expected a JSON object, or an array of them")


def _read_alert(
    request: IntakeRequest, field_map: FieldMap, entry: Document, place: str
) -> Arrival:
    kind = _kind(entry.get("status"), under(place, "status"))
    mapped = field_map.read(entry, place)
    starts_at_ns = instant(entry.get("fired_at"), under(place, "fired_at"))
    resolved_at_ns = optional_instant(entry.get("resolved_at"), under(place, "resolved_at"))
    labels = text_map(entry.get("labels"), under(place, "labels"))
    fingerprint = key_text(entry.get("id"), under(place, "id")) or key_text(
        entry.get("fingerprint"), under(place, "fingerprint")
    )
    return Arrival(
        kind=kind,
        integration=request.integration,
        tenant=request.tenant,
        fingerprint=fingerprint or digest(mapped.alarm, mapped.site, mapped.entity, labels),
        starts_at_ns=starts_at_ns,
        observed_at=None if resolved_at_ns is None else moment(resolved_at_ns),
        alarm=mapped.alarm,
        site=mapped.site,
        entity=mapped.entity,
        severity=mapped.severity,
        fired_at=moment(starts_at_ns),
        labels=labels,
        annotations=annotation_map(entry.get("annotations"), under(place, "annotations")),
        raw=dump(entry, place or "body"),
    )


def _kind(status: object, field: str) -> ArrivalKind:
    match status.lower() if isinstance(status, str) else status:
        case None | "firing":
            return ArrivalKind.FIRING
        case "resolved":
            return ArrivalKind.RESOLVED
        case _:
            raise PayloadError(field, 'expected "firing" or "resolved"')
