"""The schemas for editors agree with the checks."""

from __future__ import annotations

from typing import Any

import pytest
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]  # has no types

from tests.unit.sop.sample import SOUND
from tests.unit.sop.test_sites import SITES
from triage.sop.reading import locate
from triage.sop.schema import sites_schema, sop_schema


def data_of(text: str) -> dict[str, Any]:
    located, _ = locate(text.encode(), "f.yaml", {})
    assert located is not None
    return located.data


@pytest.mark.parametrize("schema", [sop_schema(), sites_schema()])
def test_schemas_are_draft_2020_12_and_name_no_host(schema: dict[str, Any]) -> None:
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert schema["$id"].startswith("urn:triage:")
    assert schema["title"]
    Draft202012Validator.check_schema(schema)


@pytest.mark.parametrize("schema", [sop_schema(), sites_schema()])
def test_every_property_is_described(schema: dict[str, Any]) -> None:
    for part in (schema, *schema["$defs"].values()):
        assert part["description"]
        assert part["additionalProperties"] is False
        for name, described in part["properties"].items():
            assert described.get("description"), name


def test_sound_files_pass() -> None:
    Draft202012Validator(sop_schema()).validate(data_of(SOUND))
    Draft202012Validator(sites_schema()).validate(data_of(SITES))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("version: 3", "version: 0"),
        ("version: 3", "versoin: 3"),
        ("kind: root_cause", "kind: cause"),
        ("    on_true: [ticket]", "    on_tru: [ticket]"),
        ("    on_true: [ticket]", "    on_true: [ticket, ticket]"),
        ("  rc_leak:\n", "  rc leak:\n"),
        ("rank: 9, cost: high", "cost: high"),
        ("strict: {value: true}", "strict: {value: [1]}"),
        ("aliases: {", "aliases: {' x': al_pressure_low, "),
    ],
)
def test_an_editor_sees_faults_of_shape(old: str, new: str) -> None:
    assert old in SOUND
    validator = Draft202012Validator(sop_schema())
    assert not validator.is_valid(data_of(SOUND.replace(old, new)))
