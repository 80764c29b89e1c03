"""A node as it is put to somebody who has no tool for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from triage.model.decision import NodeId, NodeKind
from triage.model.site import ParamValue
from triage.model.verdict import Verdict


class Asker(NamedTuple):
    """A node that was walked before and leads here: on `on`, one of true, false, no_data, failed.
    `verdict` is None when it failed."""

    node: NodeId
    text: str
    on: str
    verdict: Verdict | None


class Follower(NamedTuple):
    """What a word of the answer leads to: a node or an action, by its text."""

    on: str
    name: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """A number of the procedure, the site's override applied. `text` is the procedure's own."""

    name: str
    value: ParamValue
    unit: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """`sources` are those the node declares. `parameters` are all of the procedure's: which of
    them a node needs stands nowhere but in its text."""

    sop: str
    sop_version: int
    node: NodeId
    kind: NodeKind
    text: str
    text_sha256: str
    sources: tuple[str, ...]
    before: tuple[Asker, ...]
    after: tuple[Follower, ...]
    parameters: Mapping[str, Parameter]
