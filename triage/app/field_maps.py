"""The field map of every payload format, the configuration's own paths before the defaults."""

from __future__ import annotations

from dataclasses import replace

from triage.app.sections import IntakeSection
from triage.intake.fields import FieldMap, default_field_maps


def field_maps(section: IntakeSection) -> dict[str, FieldMap]:
    """By format. Raises ConfigError for a severity that means nothing."""
    maps = {}
    for name, default in default_field_maps().items():
        own = section.format(name)
        maps[name] = replace(
            default,
            alarm=own.alarm or default.alarm,
            site=own.site or default.site,
            entity=own.entity or default.entity,
            severity=own.severity or default.severity,
            severities=own.severities,
            default_site=(section.default_site if own.default_site is None else own.default_site),
        )
    return maps
