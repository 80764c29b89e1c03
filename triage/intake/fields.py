"""Where in a payload the alarm, site, entity and severity stand. One map a format, configurable."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from triage.errors import ConfigError, PayloadError
from triage.intake.documents import MAX_NAME, bounded_text, scalar_text, under
from triage.model.alert import Severity

SEVERITY_WORDS: Mapping[str, Severity] = {
    **dict.fromkeys(
        ("critical", "crit", "fatal", "emergency", "emerg", "disaster", "page", "p0", "p1", "sev1"),
        Severity.CRITICAL,
    ),
    **dict.fromkeys(("error", "err", "high", "major", "p2", "sev2"), Severity.ERROR),
    **dict.fromkeys(
        ("warning", "warn", "medium", "moderate", "minor", "p3", "sev3"), Severity.WARNING
    ),
    **dict.fromkeys(
        ("info", "information", "informational", "low", "notice", "none", "debug"), Severity.INFO
    ),
    **dict.fromkeys(("p4", "p5", "sev4", "sev5"), Severity.INFO),
}
"""What senders write, in lower case, to what we mean. Anything else is UNKNOWN."""

_MAX_INDEX_DIGITS = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class MappedFields:
    """What a field map found in one alert. `site` and `entity` may be empty, `alarm` only where
    it was not required."""

    alarm: str
    site: str
    entity: str
    severity: Severity


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldMap:
    """Dotted paths into the document of one alert; of each list the first that holds text wins.

    `severities` maps a sender's word (in any case) to a severity or to a word this project knows,
    and goes before `SEVERITY_WORDS`. Raises ConfigError when it maps to anything else.
    """

    alarm: tuple[str, ...] = ()
    site: tuple[str, ...] = ()
    entity: tuple[str, ...] = ()
    severity: tuple[str, ...] = ()
    default_site: str = ""
    severities: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for word, meaning in self.severities.items():
            if meaning.strip().lower() not in {*SEVERITY_WORDS, Severity.UNKNOWN.value}:
                known = ", ".join(severity.value for severity in Severity)
                raise ConfigError(
                    f"severities.{word}: {meaning!r} is not a severity; use one of {known}"
                )

    def read(self, document: object, place: str, *, alarm_required: bool = True) -> MappedFields:
        """The fields of the alert at `place` in the sender's document. Raises PayloadError."""
        alarm = _first_text(document, self.alarm, place)
        if alarm_required and not alarm:
            raise PayloadError(
                under(place, self.alarm[0]) if self.alarm else place or "body",
                f"no alarm name: none of {', '.join(self.alarm) or '(no path)'} holds text;"
                " send one of them, or map another field in the configuration",
            )
        return MappedFields(
            alarm=alarm,
            site=_first_text(document, self.site, place) or self.default_site,
            entity=_first_text(document, self.entity, place),
            severity=self.severity_of(_first_text(document, self.severity, place)),
        )

    def severity_of(self, word: str) -> Severity:
        """UNKNOWN for a word that nobody has given a meaning."""
        spelled = word.strip().lower()
        for own, meaning in self.severities.items():
            if own.strip().lower() == spelled:
                spelled = meaning.strip().lower()
                break
        return SEVERITY_WORDS.get(spelled, Severity.UNKNOWN)


def lookup(document: object, path: str) -> object:
    """What stands at a dotted path, or None.

    At every object the whole rest of the path is tried as a key before it is split at its first
    dot, because label names may hold dots. In an array a step is an index from 0.
    """
    found, rest = document, path
    while rest:
        if isinstance(found, Mapping):
            if rest in found:
                return found[rest]
            step, _, rest = rest.partition(".")
            found = found.get(step)
        elif isinstance(found, list):
            step, _, rest = rest.partition(".")
            found = _item(found, step)
        else:
            return None
    return found


def default_field_maps() -> dict[str, FieldMap]:
    """A fresh map for every format, by its name."""
    labels = FieldMap(
        alarm=("labels.alertname",),
        site=("labels.site", "labels.datacenter", "labels.cluster"),
        entity=("labels.entity", "labels.instance", "labels.device"),
        severity=("labels.severity",),
    )
    return {
        "alertmanager": labels,
        "grafana": labels,
        "pagerduty": FieldMap(
            alarm=(
                "payload.custom_details.alertname",
                "payload.custom_details.alarm",
                "payload.class",
                "payload.summary",
            ),
            site=("payload.custom_details.site", "payload.group"),
            entity=("payload.custom_details.entity", "payload.source"),
            severity=("payload.severity",),
        ),
        "cloudevents": FieldMap(
            alarm=("data.alertname", "data.alarm", "subject", "type"),
            site=("data.site", "data.labels.site", "site"),
            entity=(
                "data.entity",
                "data.instance",
                "data.device",
                "data.labels.entity",
                "data.labels.instance",
                "data.labels.device",
                "entity",
            ),
            severity=("data.severity", "data.labels.severity", "severity"),
        ),
        "sns": FieldMap(
            alarm=("AlarmName",),
            site=("Region",),
            entity=(
                "Trigger.Dimensions.0.value",
                "Trigger.Metrics.0.MetricStat.Metric.Dimensions.0.value",
            ),
            severity=(),
        ),
        "native": FieldMap(
            alarm=("alarm",), site=("site",), entity=("entity",), severity=("severity",)
        ),
    }


def _item(items: list[object], step: str) -> object:
    if not (step.isascii() and step.isdigit() and len(step) <= _MAX_INDEX_DIGITS):
        return None
    index = int(step)
    return items[index] if index < len(items) else None


def _first_text(document: object, paths: tuple[str, ...], place: str) -> str:
    for path in paths:
        text = scalar_text(lookup(document, path))
        if text is not None and text.strip():
            return bounded_text(text, under(place, path), MAX_NAME)
    return ""
