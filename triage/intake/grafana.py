"""Grafana alerting webhooks, version 1: an Alertmanager group with an organisation.

The organisation (`orgId`) is the tenant, under the tenant of the request where that has one:
every Grafana counts its organisations from 1. Per-alert `values` stay in the raw document.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from triage.intake.alertmanager import read_group
from triage.intake.documents import as_object, key_text, load

if TYPE_CHECKING:
    from triage.intake.fields import FieldMap
    from triage.intake.request import IntakeRequest, Parsed


def parse_grafana(request: IntakeRequest, field_map: FieldMap) -> Parsed:
    """Raises PayloadError when no alert of the group can be one."""
    group = as_object(load(request.body, "body"), "body")
    organisation = key_text(group.get("orgId"), "orgId")
    tenant = "/".join(part for part in (request.tenant, organisation) if part)
    return read_group(replace(request, tenant=tenant), field_map, group)
