"""A golden case's file: an alert, what is known about it, and what must be decided.

::

    about: A service that was restarted minutes ago is left to its owner.
    alert: {alarm: ServiceDown, entity: shop}
    verdicts:                       # written by hand: no tool runs, the walk alone is tested
      obs_service_down: true
      rc_host_unreachable: false
      cn_restart_safe: {verdict: false, subject: shop}
    expect:
      outcome: actions
      actions: [page_owner]

Several short ones may stand in one file, as `cases: {name: {alert: …}, …}`. A case that
`triage test add` recorded has `answers` instead of `verdicts`: every query with its answer, for the
tools to judge anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, TypeAdapter, WithJsonSchema
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import PydanticCustomError

from triage.model.query import read_instant
from triage.sop.fields import MAX_TEXT, FileModel
from triage.sop.located import YamlPath

CASE_SECTIONS: Mapping[str, str] = {"verdicts": "node"}
FILE_SECTIONS: Mapping[str, str] = {"verdicts": "node", "cases": "case"}

NOT_REACHED = "not_reached"
GivenWord = Literal["true", "false", "no_data", "failed"]
ExpectedWord = Literal["true", "false", "no_data", "failed", "not_reached"]
OutcomeWord = Literal["resolved", "escalate", "actions", "inconclusive", "no_fault"]


def _word(value: Any) -> Any:
    return str(value).lower() if isinstance(value, bool) else value


def _one_verdict(value: Any) -> Any:
    return {"verdict": value} if isinstance(value, bool | str) else value


def _one_action(value: Any) -> Any:
    return {"action": value} if isinstance(value, str) else value


def _one_node(value: Any) -> Any:
    return {"node": value} if isinstance(value, str) else value


def _instant(value: Any) -> Any:
    moment = read_instant(value)
    if moment is not None:
        return moment
    raise PydanticCustomError(
        "instant", "must be a time with its offset, such as 2026-06-01T12:31:00Z"
    )


Instant = Annotated[
    datetime,
    BeforeValidator(_instant),
    WithJsonSchema({"type": "string", "format": "date-time"}),
]
Subject = Annotated[
    str | None, Field(description="The asset it speaks of; the alert's entity by default.")
]


class GivenVerdict(FileModel):
    """What a node is taken to have said."""

    verdict: Annotated[
        GivenWord, BeforeValidator(_word, json_schema_input_type=bool | GivenWord)
    ] = Field(description="true, false, no_data or failed.")
    subject: Subject = None


class ExpectedVerdict(FileModel):
    """What a node must say. Without a subject, about whatever asset."""

    verdict: Annotated[
        ExpectedWord, BeforeValidator(_word, json_schema_input_type=bool | ExpectedWord)
    ] = Field(description="true, false, no_data, failed or not_reached.")
    subject: str | None = Field(default=None, description="The asset it must speak of.")


class ExpectedAction(FileModel):
    """An action that must stand. Without a subject, on whatever asset."""

    action: str = Field(min_length=1, description="The action's id.")
    subject: str | None = Field(default=None, description="The asset it must be on.")


class ExpectedDropped(ExpectedAction):
    """An action that must be reached and dropped."""

    reason: Literal["cancelled", "yielded", "outranked", "escalated", "resolved"] | None = Field(
        default=None, description="Why it must be dropped; whatever reason where it is left out."
    )
    by: str | None = Field(default=None, description="The action that must have dropped it.")


class ExpectedCause(FileModel):
    """A root cause that must be found."""

    node: str = Field(min_length=1, description="The root-cause node's id.")
    subject: str | None = Field(default=None, description="The asset that must be at fault.")


Given = Annotated[
    GivenVerdict,
    BeforeValidator(_one_verdict, json_schema_input_type=bool | GivenWord | GivenVerdict),
]
Expected = Annotated[
    ExpectedVerdict,
    BeforeValidator(_one_verdict, json_schema_input_type=bool | ExpectedWord | ExpectedVerdict),
]
Action = Annotated[
    ExpectedAction, BeforeValidator(_one_action, json_schema_input_type=str | ExpectedAction)
]
Dropped = Annotated[
    ExpectedDropped, BeforeValidator(_one_action, json_schema_input_type=str | ExpectedDropped)
]
Cause = Annotated[
    ExpectedCause, BeforeValidator(_one_node, json_schema_input_type=str | ExpectedCause)
]


class AlertEntry(FileModel):
    """The alert. A case written by hand needs its alarm, and entity and site where they matter;
    the rest is the record's."""

    alarm: str = Field(description="The alarm's name, or an alias of it.")
    entity: str = Field(default="", description="The asset the alert speaks of.")
    site: str = Field(default="", description="Where it fired.")
    severity: Literal["critical", "error", "warning", "info", "unknown"] = "unknown"
    fired_at: Instant | None = Field(default=None, description="What every query asks about.")
    accepted_at: Instant | None = None
    resolved_at: Instant | None = None
    unmatched_resolve: bool = False
    id: str = ""
    integration: str = ""
    tenant: str = ""
    fingerprint: str = ""
    labels: dict[str, str] = Field(
        default={}, description="The alert's labels; tools may read them."
    )
    annotations: dict[str, str] = Field(default={})


class FailureEntry(FileModel):
    """How a query failed when it was recorded: it fails so again."""

    reason: str
    detail: str = ""


class AnswerEntry(FileModel):
    """One query and what it was answered with: one of `answer`, `packed` and `failure`."""

    query: dict[str, Any] = Field(description="The query as decisions show it.")
    answer: str | None = Field(default=None, description="The encoded answer, as text.")
    packed: str | None = Field(
        default=None, description="The encoded answer, compressed with zlib, in base64."
    )
    failure: FailureEntry | None = None


class ExpectEntry(FileModel):
    """What must be decided. Every part may be left out, but not all; a list is the whole list."""

    outcome: OutcomeWord | None = None
    reason: str | None = Field(default=None, description="Of an escalation: `unrouted`, or empty.")
    degraded: bool | None = Field(default=None, description="Whether a node must have failed.")
    verdicts: dict[str, Expected] | None = Field(
        default=None, description="What these nodes must say; others may say anything."
    )
    root_causes: list[Cause] | None = None
    actions: list[Action] | None = Field(
        default=None, description="The actions that must stand, and no other; [] for none."
    )
    dropped_actions: list[Dropped] | None = Field(
        default=None, description="The actions that must be dropped, and no other."
    )


class CaseFile(FileModel):
    """A golden case: an alert, what is known about it, and what must be decided."""

    about: str = Field(default="", max_length=MAX_TEXT, description="What the case is there for.")
    alert: AlertEntry = Field(description="The alert: its alarm, entity and site.")
    verdicts: dict[str, Given] | None = Field(
        default=None, description="What the nodes say. No tool runs: the walk alone is tested."
    )
    answers: list[AnswerEntry] | None = Field(
        default=None, description="Recorded queries with their answers. The tools judge them."
    )
    expect: ExpectEntry = Field(description="What must be decided: at least one part of it.")


class CasesFile(FileModel):
    """Several golden cases, by name."""

    about: str = Field(default="", max_length=MAX_TEXT, description="What they are there for.")
    cases: dict[str, CaseFile] = Field(min_length=1, description="The cases by name.")


CASE_ENTRIES: Mapping[YamlPath, type[FileModel]] = {
    (): CaseFile,
    ("alert",): AlertEntry,
    ("expect",): ExpectEntry,
    ("verdicts", "*"): GivenVerdict,
    ("answers", "*"): AnswerEntry,
    ("expect", "verdicts", "*"): ExpectedVerdict,
    ("expect", "actions", "*"): ExpectedAction,
    ("expect", "dropped_actions", "*"): ExpectedDropped,
    ("expect", "root_causes", "*"): ExpectedCause,
}


def golden_schema() -> dict[str, Any]:
    """JSON Schema (draft 2020-12) of a golden file. Whether its nodes exist only a run finds."""
    either: TypeAdapter[CaseFile | CasesFile] = TypeAdapter(CaseFile | CasesFile)
    return {
        "$schema": GenerateJsonSchema.schema_dialect,
        "$id": "urn:triage:schema:golden",
        **either.json_schema(mode="validation"),
        "title": "Golden cases of triage",
    }
