"""The payload formats by name, and the one way in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from triage.errors import PayloadError
from triage.intake.alertmanager import parse_alertmanager
from triage.intake.cloudevents import parse_cloudevents
from triage.intake.documents import MAX_NAME, bounded_text
from triage.intake.fields import FieldMap
from triage.intake.grafana import parse_grafana
from triage.intake.native import parse_native
from triage.intake.pagerduty import parse_pagerduty
from triage.intake.request import IntakeRequest, Parsed
from triage.intake.sns import parse_sns

Parser = Callable[[IntakeRequest, FieldMap], Parsed]

PARSERS: Mapping[str, Parser] = MappingProxyType(
    {
        "alertmanager": parse_alertmanager,
        "grafana": parse_grafana,
        "pagerduty": parse_pagerduty,
        "cloudevents": parse_cloudevents,
        "sns": parse_sns,
        "native": parse_native,
    }
)


def parse(request: IntakeRequest, field_map: FieldMap) -> Parsed:
    """What the request says, as arrivals.

    Raises PayloadError, with a field and a problem, when nothing in it can be an alert. Of a
    batch with some bad entries the good ones arrive; each bad one becomes a Rejected row and an
    EVENT arrival that keeps it.
    """
    parser = PARSERS.get(request.format)
    if parser is None:
        raise PayloadError("format", f"is not known: use one of {', '.join(PARSERS)}")
    for name, text in (("integration", request.integration), ("tenant", request.tenant)):
        bounded_text(text, name, MAX_NAME)  # part of identity, and senders may choose them
    return parser(request, field_map)
