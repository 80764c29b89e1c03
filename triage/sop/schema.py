"""JSON Schemas (draft 2020-12) of the two files, for editors."""

from __future__ import annotations

from typing import Any

from pydantic.json_schema import GenerateJsonSchema

from triage.sop.fields import FileModel
from triage.sop.sites_file import SitesFile
from triage.sop.sop_file import SopFile


def sop_schema() -> dict[str, Any]:
    """Schema of the SOP file. What a schema cannot say (edges, cycles) only a check finds."""
    return _schema(SopFile, "urn:triage:schema:sop", "SOP of triage")


def sites_schema() -> dict[str, Any]:
    """Schema of the sites file."""
    return _schema(SitesFile, "urn:triage:schema:sites", "Sites of triage")


def _schema(model: type[FileModel], urn: str, title: str) -> dict[str, Any]:
    schema = model.model_json_schema(mode="validation")
    for part in (schema, *schema.get("$defs", {}).values()):
        for described in part["properties"].values():
            if "patternProperties" in described:
                # Without this an editor accepts every name that does not fit the pattern.
                described["additionalProperties"] = False
    return {"$schema": GenerateJsonSchema.schema_dialect, "$id": urn, **schema, "title": title}
