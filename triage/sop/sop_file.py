"""The SOP file's shape. What entries mean to each other is for `references` and `graph`."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from triage.sop.fields import MAX_TEXT, FileModel, Id, Name, References, Scalar, Text, Unit

SOP_SECTIONS = {
    "alarms": "alarm",
    "aliases": "alias",
    "params": "param",
    "nodes": "node",
    "actions": "action",
}

MAX_RANK = 1_000_000


class ParamEntry(FileModel):
    """A number, word or switch that tools read, and that a site may override."""

    value: Scalar = Field(description="The value where a site states none.")
    unit: Unit = Field(default="", description="Unit of value, min and max, such as percent.")
    minimum: float | None = Field(default=None, alias="min", description="Least value, inclusive.")
    maximum: float | None = Field(
        default=None, alias="max", description="Greatest value, inclusive."
    )
    text: str = Field(
        default="", max_length=MAX_TEXT, description="What the value means, for people."
    )


class NodeEntry(FileModel):
    """A decision node: one question, and where each answer leads."""

    kind: Literal["observation", "root_cause", "constraint"] = Field(
        description="observation (is the symptom real?), root_cause (is this the fault?) or "
        "constraint (is the costly action safe or unavoidable?)."
    )
    text: Text = Field(description="The question as a person would ask it.")
    sources: References = Field(default=[], description="The sources that its tool may ask.")
    on_true: References = Field(default=[], description="Nodes and actions that `true` leads to.")
    on_false: References = Field(default=[], description="Nodes and actions that `false` leads to.")
    on_no_data: References = Field(
        default=[], description="Where to go when the source answered and the metric is missing."
    )
    on_failed: References = Field(
        default=[], description="Where to go when nobody could answer. Nowhere by default."
    )
    unguarded_because: Text | None = Field(
        default=None,
        description="Why this node may lead to a costly action without a constraint before it.",
    )

    @property
    def targets(self) -> dict[str, list[str]]:
        """For every word of `procedure.WORDS`, where it leads."""
        return {
            "true": self.on_true,
            "false": self.on_false,
            "no_data": self.on_no_data,
            "failed": self.on_failed,
        }


class ActionEntry(FileModel):
    """Something to do, or to have done."""

    text: Text = Field(description="The action as a person would say it.")
    rank: int = Field(
        ge=-MAX_RANK,
        le=MAX_RANK,
        description="Of yielding actions only the one with the highest rank stands.",
    )
    cost: Literal["low", "high"] = Field(
        description="high: a constraint node must come before it on every path."
    )
    yields: bool = Field(
        default=False, description="true: dropped when any action that does not yield stands."
    )
    cancels: References = Field(
        default=[], description="Actions that this one removes, on the same subject or inside it."
    )


class SopFile(FileModel):
    """A written procedure for alerts: which metric to look at, what to suspect, what to do."""

    sop: Id = Field(description="The procedure's name.")
    version: int = Field(ge=1, description="Raised by one with every change.")
    alarms: dict[Name, References] = Field(
        min_length=1, description="For every alarm name, the nodes where its alerts enter."
    )
    aliases: dict[Name, Name] = Field(
        default={}, description="Other names of alarms: other name to alarm."
    )
    params: dict[Id, ParamEntry] = Field(
        default={}, description="Numbers, words and switches that tools read."
    )
    nodes: dict[Id, NodeEntry] = Field(min_length=1, description="The decision nodes by id.")
    actions: dict[Id, ActionEntry] = Field(default={}, description="The actions by id.")
