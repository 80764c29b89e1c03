"""Many alerts in one request: the good ones arrive, and of the bad ones nothing is lost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import orjson

from triage.errors import PayloadError
from triage.intake.documents import MAX_RAW_BYTES, Document, as_object, digest, dump
from triage.intake.request import IntakeRequest, Rejected
from triage.model.alert import Arrival, ArrivalKind, Severity
from triage.model.canonical import sha256_hex

MAX_ENTRIES = 10_000  # alerts a request

Reader = Callable[[Document, str], Arrival]
"""(entry, its place such as `alerts[0]`) to an arrival. Raises PayloadError."""


def delivery_key(request: IntakeRequest, *parts: object) -> str:
    """Names one message of one integration and tenant, from JSON values."""
    return digest(request.format, request.integration, request.tenant, *parts)


def read_entries(
    request: IntakeRequest, entries: Sequence[Any], field: str, read: Reader
) -> tuple[list[Arrival], list[Rejected]]:
    """Arrivals in the order of `entries`, a rejected one's EVENT in its place.

    `field` is the array's own path, empty for a body that is an array. Raises PayloadError when
    the array is empty, over `MAX_ENTRIES`, or holds nothing that can be an alert: then it is the
    first entry's.
    """
    if not entries:
        raise PayloadError(field or "body", "holds no alert: send at least one")
    if len(entries) > MAX_ENTRIES:
        raise PayloadError(
            field or "body", f"holds {len(entries)} alerts: send at most {MAX_ENTRIES} a request"
        )
    arrivals: list[Arrival] = []
    rejected: list[Rejected] = []
    first_error: PayloadError | None = None
    for index, entry in enumerate(entries):
        place = f"{field}[{index}]"
        try:
            arrivals.append(read(as_object(entry, place), place))
        except PayloadError as error:
            first_error = first_error or error
            rejected.append(Rejected(index=index, field=error.field, problem=error.problem))
            arrivals.append(_rejected_event(request, entry, error))
    if first_error is not None and len(rejected) == len(entries):
        raise first_error
    return arrivals, rejected


def _rejected_event(request: IntakeRequest, entry: object, error: PayloadError) -> Arrival:
    raw = _kept(entry, error.field)
    return Arrival(
        kind=ArrivalKind.EVENT,
        event="rejected",
        integration=request.integration,
        tenant=request.tenant,
        fingerprint=sha256_hex(raw),
        starts_at_ns=None,
        delivery_key=delivery_key(request, "rejected", sha256_hex(raw)),
        alarm="",
        site="",
        entity="",
        severity=Severity.UNKNOWN,
        fired_at=request.received_at,
        annotations={"field": error.field, "problem": error.problem},
        raw=raw,
    )


def _kept(entry: object, field: str) -> bytes:
    """The entry as JSON; where that cannot be kept, as much of it as can, and its true size."""
    try:
        return dump(entry, field)
    except PayloadError as error:
        try:
            whole = orjson.dumps(entry)
        except TypeError:
            return orjson.dumps({"unkept": error.problem})
        head = whole[: MAX_RAW_BYTES // 8].decode(errors="ignore")
        return orjson.dumps({"unkept": error.problem, "sha256": sha256_hex(whole), "head": head})
