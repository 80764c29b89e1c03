"""Short ways to a request and what is made of it."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from tests.payload_mutations import PAYLOADS
from triage.errors import PayloadError
from triage.intake.fields import FieldMap, default_field_maps
from triage.intake.formats import parse
from triage.intake.request import IntakeRequest, Parsed

if TYPE_CHECKING:
    from collections.abc import Mapping

RECEIVED_AT = datetime(2026, 11, 29, 20, 0, tzinfo=UTC)


def sample(name: str) -> Any:
    """A stored payload, decoded."""
    return json.loads((PAYLOADS / f"{name}.json").read_text())


def read(
    format_name: str,
    document: Any,
    *,
    headers: Mapping[str, str] | None = None,
    field_map: FieldMap | None = None,
    **parts: Any,
) -> Parsed:
    """Parse `document` (bytes as they are, anything else as JSON)."""
    body = document if isinstance(document, bytes) else json.dumps(document).encode()
    request = IntakeRequest(
        format=format_name, body=body, headers=headers or {}, received_at=RECEIVED_AT, **parts
    )
    return parse(request, field_map or default_field_maps()[format_name])


def refused(format_name: str, document: Any, **parts: Any) -> PayloadError:
    """The error that the payload is refused with."""
    with pytest.raises(PayloadError) as caught:
        read(format_name, document, **parts)
    return caught.value
