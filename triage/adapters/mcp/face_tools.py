"""The tools of a face, as an MCP client is told of them. A model reads these texts, and nothing
else, before it writes its queries."""

from __future__ import annotations

from typing import Any

from mcp_types import Tool, ToolAnnotations

LONGEST_TEXT = 65_536  # characters of a selector or an SQL text, as for a tool's own queries
MOST_PARAMS = 256

_READS = ToolAnnotations(
    read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False
)

_NUMBER = {
    "anyOf": [{"type": "number"}, {"enum": ["NaN", "+Inf", "-Inf"]}],
    "description": "a number, or one of the texts NaN, +Inf and -Inf where it is not finite",
}
_LABELS = {"type": "object", "additionalProperties": {"type": "string"}}


def _object(required: dict[str, Any], optional: dict[str, Any] | None = None) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {**required, **(optional or {})},
        "required": list(required),
        "additionalProperties": False,
    }


def _moment(which: str) -> dict[str, Any]:
    return {
        "type": "string",
        "format": "date-time",
        "maxLength": 64,
        "description": f"{which}: ISO 8601 with an offset from UTC, such as"
        " 2026-01-05T12:00:00+00:00",
    }


_WINDOW = {
    "selector": {
        "type": "string",
        "maxLength": LONGEST_TEXT,
        "description": 'one series selector and nothing around it, such as metric{label="value"};'
        " matchers are = != =~ !~, regular expressions match the whole label value",
    },
    "start": _moment("start of the window, itself left out"),
    "end": _moment("end of the window, itself included"),
}

_SAMPLES = Tool(
    name="samples",
    title="Raw samples",
    description=(
        "Raw samples with start < time <= end of every series that the selector finds, in the order"
        " of their labels. Values are in the metric's own unit. `times` are seconds since the epoch"
        " (UTC), ascending; `values` has the same length. A series without a sample in the window"
        " is left out, and gaps are not filled: an empty list means that no such data was stored."
        " Use aggregate for windows of more than a few hours."
    ),
    annotations=_READS,
    input_schema=_object(_WINDOW),
    output_schema=_object(
        {
            "series": {
                "type": "array",
                "items": _object(
                    {
                        "labels": _LABELS,
                        "times": {"type": "array", "items": {"type": "number"}},
                        "values": {"type": "array", "items": _NUMBER},
                    }
                ),
            }
        }
    ),
)

_AGGREGATE = Tool(
    name="aggregate",
    title="One value a series",
    description=(
        "`function` over the samples with start < time <= end, one value for each series that the"
        " selector finds, in the order of their labels. Values are in the metric's own unit; count"
        " is a number of samples. Raw values are aggregated as they are: sum of a counter is not"
        " its increase. A series without a sample in the window is left out."
    ),
    annotations=_READS,
    input_schema=_object(
        {
            **_WINDOW,
            "function": {"enum": ["count", "min", "max", "sum", "quantile"]},
        },
        {
            "quantile": {
                "type": "number",
                "minimum": 0,
                "maximum": 1,
                "default": 0,
                "description": "which quantile, 0.5 for the median; read by function quantile only",
            }
        },
    ),
    output_schema=_object(
        {"readings": {"type": "array", "items": _object({"labels": _LABELS, "value": _NUMBER})}}
    ),
)

_QUERY = Tool(
    name="query",
    title="Rows of a read-only SQL query",
    description=(
        "Rows of one read-only SQL statement, each an object of column name to value, in the order"
        " of its ORDER BY. Values go into `params` and are named :name in the text, each at least"
        " once; a literal colon before a letter is \\:. A timestamp with time zone comes as ISO"
        " 8601 in UTC, one without as ISO 8601 without an offset, in the clocks of whoever wrote"
        " it; NULL is null; a number that is not finite is the text NaN, Infinity or -Infinity. No"
        " rows is an answer. Tables and columns are listed in information_schema.columns"
        " (PostgreSQL) or sqlite_master (SQLite)."
    ),
    annotations=_READS,
    input_schema=_object(
        {
            "sql": {
                "type": "string",
                "maxLength": LONGEST_TEXT,
                "description": "one SELECT, with :name for every value from outside",
            }
        },
        {
            "params": {
                "type": "object",
                "maxProperties": MOST_PARAMS,
                "additionalProperties": {"type": ["string", "number", "boolean", "null"]},
                "default": {},
                "description": "value of each :name",
            }
        },
    ),
    output_schema=_object({"rows": {"type": "array", "items": {"type": "object"}}}),
)

_SEARCH = {
    "contains": {
        "type": "string",
        "maxLength": 500,
        "default": "",
        "description": "words, or parts of words, with spaces between them",
    },
    "limit": {"type": "integer", "minimum": 1, "maximum": 200, "default": 50},
}
_MORE = {"type": "integer", "minimum": 0, "description": "how many more there are beyond the limit"}

_METRICS = Tool(
    name="metrics",
    title="Metrics by name",
    description=(
        "Which metrics there are: those whose name, labels or help hold a word of `contains`, most"
        " words first; without it, all by name. Labels may be missing here, then samples show them."
    ),
    annotations=_READS,
    input_schema=_object({}, _SEARCH),
    output_schema=_object(
        {
            "metrics": {
                "type": "array",
                "items": _object(
                    {
                        "name": {"type": "string"},
                        "labels": {"type": "array", "items": {"type": "string"}},
                        "help": {"type": "string"},
                    }
                ),
            },
            "more": _MORE,
        }
    ),
)

_TABLES = Tool(
    name="tables",
    title="Tables and their columns",
    description=(
        "Which tables there are, with their columns: those whose name or columns hold a word of"
        " `contains`, most words first; without it, all by name."
    ),
    annotations=_READS,
    input_schema=_object({}, _SEARCH),
    output_schema=_object(
        {
            "tables": {
                "type": "array",
                "items": _object(
                    {
                        "name": {"type": "string"},
                        "columns": {
                            "type": "array",
                            "items": _object(
                                {"name": {"type": "string"}, "type": {"type": "string"}}
                            ),
                        },
                    }
                ),
            },
            "more": _MORE,
        }
    ),
)

FACE_TOOLS = (_SAMPLES, _AGGREGATE, _QUERY, _METRICS, _TABLES)
