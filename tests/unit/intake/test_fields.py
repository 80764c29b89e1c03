from __future__ import annotations

from typing import Any

import pytest

from triage.errors import ConfigError, PayloadError
from triage.intake.fields import FieldMap, default_field_maps, lookup
from triage.intake.formats import PARSERS
from triage.model.alert import Severity


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("labels.site", "east"),
        ("labels.k8s.io/name", "db"),
        ("a.b", "whole"),
        ("list.1.name", "second"),
        ("list.1", {"name": "second"}),
        ("list.2.name", None),
        ("list.-1.name", None),
        ("list.one", None),
        ("list.99999999999999999999", None),
        ("list.²", None),
        ("labels.none", None),
        ("labels.site.deeper", None),
        ("", {}),
    ],
)
def test_lookup(path: str, found: object) -> None:
    document: dict[str, Any] = {
        "labels": {"site": "east", "k8s.io/name": "db"},
        "a.b": "whole",
        "a": {"b": "split"},
        "list": [{"name": "first"}, {"name": "second"}],
    }
    assert lookup(document, path) == (found if path else document)


def test_the_first_path_that_holds_text_wins() -> None:
    field_map = FieldMap(alarm=("a", "b", "c"), site=("s",), default_site="home")
    fields = field_map.read({"a": {"no": "text"}, "b": " ", "c": 42}, "")
    assert fields.alarm == "42"
    assert fields.site == "home"
    assert fields.entity == ""
    assert fields.severity is Severity.UNKNOWN


def test_a_missing_alarm_names_the_first_path() -> None:
    field_map = FieldMap(alarm=("labels.alertname", "labels.alarm"))
    with pytest.raises(PayloadError, match=r"labels\.alertname, labels\.alarm") as caught:
        field_map.read({}, "alerts[3]")
    assert caught.value.field == "alerts[3].labels.alertname"
    assert field_map.read({}, "alerts[3]", alarm_required=False).alarm == ""


def test_a_map_without_paths_still_names_a_field() -> None:
    with pytest.raises(PayloadError) as caught:
        FieldMap().read({}, "")
    assert caught.value.field == "body"


@pytest.mark.parametrize("value", ["x" * 257, "a\0b", "half \ud800"])
def test_text_that_cannot_be_kept_is_refused(value: str) -> None:
    with pytest.raises(PayloadError) as caught:
        FieldMap(alarm=("a",), entity=("e",)).read({"a": "x", "e": value}, "body")
    assert caught.value.field == "body.e"


@pytest.mark.parametrize(
    ("word", "severity"),
    [
        ("critical", Severity.CRITICAL),
        (" CRIT ", Severity.CRITICAL),
        ("P1", Severity.CRITICAL),
        ("page", Severity.CRITICAL),
        ("major", Severity.ERROR),
        ("Warn", Severity.WARNING),
        ("minor", Severity.WARNING),
        ("none", Severity.INFO),
        ("informational", Severity.INFO),
        ("", Severity.UNKNOWN),
        ("purple", Severity.UNKNOWN),
    ],
)
def test_severity_words(word: str, severity: Severity) -> None:
    assert FieldMap().severity_of(word) is severity


def test_own_severity_words_go_first() -> None:
    field_map = FieldMap(severities={"Purple": "critical", "page": "warn", "critical": "info"})
    assert field_map.severity_of("PURPLE") is Severity.CRITICAL
    assert field_map.severity_of("page") is Severity.WARNING
    assert field_map.severity_of("critical") is Severity.INFO


def test_a_severity_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"severities\.purple"):
        FieldMap(severities={"purple": "mauve"})


def test_every_format_has_a_map() -> None:
    assert default_field_maps().keys() == PARSERS.keys()
    assert all(field_map.alarm for field_map in default_field_maps().values())
