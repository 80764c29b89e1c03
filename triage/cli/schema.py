"""`triage schema`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Annotated, Any

import typer

from triage.app.golden_file import golden_schema
from triage.app.settings import settings_schema
from triage.cli import options
from triage.cli.output import print_json
from triage.maker.cases_format import cases_schema
from triage.sop.schema import sites_schema, sop_schema

application = options.application()


class SchemaName(StrEnum):
    SOP = "sop"
    SITES = "sites"
    CONFIG = "config"
    GOLDEN = "golden"
    CASES = "cases"


SCHEMAS: Mapping[SchemaName, Callable[[], dict[str, Any]]] = MappingProxyType(
    {
        SchemaName.SOP: sop_schema,
        SchemaName.SITES: sites_schema,
        SchemaName.CONFIG: settings_schema,
        SchemaName.GOLDEN: golden_schema,
        SchemaName.CASES: cases_schema,
    }
)


@application.command()
def schema(
    name: Annotated[
        SchemaName,
        typer.Argument(help="Of which file.", metavar="sop|sites|config|golden|cases"),
    ],
) -> None:
    """Print the JSON Schema of a file you write, for editors.

    `# yaml-language-server: $schema=PATH` as the first line of a YAML file makes most editors
    complete and check it. What a schema cannot say, such as a cycle, only `triage check` finds.

    Exit codes: 0; 2 no such schema.
    """
    print_json(SCHEMAS[name]())
