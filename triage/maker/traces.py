"""Traces in a library: written, read back, and taken from decisions that a fallback had a part in.

`<library>/<node>/traces/<name>.json` is a trace that came to the right verdict, in the form that
`fallback.examples` reads as a worked example, with more keys. One whose verdict was wrong, or of
which nobody knows, lies in `traces/unproven/`: it tells a maker as much of the sources, and must
not be taken for an example.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
import structlog

from triage.errors import ConfigError
from triage.fallback.examples import MAX_BYTES, MAX_CODE
from triage.fallback.masking import Mask
from triage.library.files import Unreadable, is_folder_name, read_bounded, within, write_atomic
from triage.maker.collect import Asked, answers_told, seen_queries
from triage.maker.faced import is_lookup
from triage.maker.model import CaseTrace
from triage.maker.trace_json import read_trace, read_turn, text_of, trace_json, word_of
from triage.model.decision import NodeId
from triage.model.trace import VERDICT, Turn
from triage.model.verdict import WORDS
from triage.sop.procedure import Node

FOLDER, UNPROVEN = "traces", "unproven"
MOST = 20
"""Traces of a node that are read, the newest of each folder by name."""
ORIGIN_CHARS = 40
FROM_DECISION = "decision "

_OTHER = re.compile(r"[^A-Za-z0-9]+")


# --- files ------------------------------------------------------------------------------------


def save_trace(library: Path, node: Node, trace: CaseTrace) -> Path:
    """The file that it was written to, in place of an earlier one of the same origin and time.
    Raises ConfigError when it cannot be written."""
    if not is_folder_name(node.node):
        raise ConfigError(f"{node.node!r} is no name of a folder: the library cannot hold its tool")
    name = f"{trace_name(trace)}.json"
    folder = library / node.node / FOLDER
    path = folder / name if is_example(trace) else folder / UNPROVEN / name
    try:
        within(library, path).parent.mkdir(parents=True, exist_ok=True)
        write_atomic(within(library, path), _bounded(node, trace))
        # It may have been judged anew: one trace lies in one place.
        other = folder / UNPROVEN / name if is_example(trace) else folder / name
        within(library, other).unlink(missing_ok=True)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be written: {error.strerror}") from error
    return path


def load_traces(library: Path, node: NodeId) -> list[CaseTrace]:
    """Examples first, of each kind the oldest first, by name. A file that cannot be read is skipped
    and named in a warning; one that `fallback.examples` was given by hand, which has no answers, is
    passed over."""
    if not is_folder_name(node):
        return []
    found: list[CaseTrace] = []
    for folder in (library / node / FOLDER, library / node / FOLDER / UNPROVEN):
        read: list[CaseTrace] = []
        for path in sorted(folder.glob("*.json"), reverse=True):
            if len(read) == MOST:
                break
            if (trace := _read(library, path, node)) is not None:
                read.append(trace)
        found += reversed(read)
    return found


def trace_name(trace: CaseTrace) -> str:
    """By time, so that names sort like it, and by where it came from."""
    at = _OTHER.sub("", trace.timestamp.partition("+")[0].partition(".")[0])
    origin = _OTHER.sub("-", trace.origin).strip("-").lower()[:ORIGIN_CHARS]
    return f"{at or 'undated'}-{origin or 'trace'}"


def is_example(trace: CaseTrace) -> bool:
    """Whether it was right, and its last code is what `fallback.examples` takes."""
    code = trace.turns[-1].code if trace.turns else ""
    fits = bool(code.strip()) and len(code) <= MAX_CODE and "```" not in code
    return trace.right is True and trace.verdict in WORDS and fits


def _read(library: Path, path: Path, node: NodeId) -> CaseTrace | None:
    try:
        document = orjson.loads(read_bounded(path, root=library, limit=MAX_BYTES))
        if isinstance(document, dict) and "answers" not in document:
            return None
        return read_trace(document, node)
    except (Unreadable, ValueError) as error:
        structlog.get_logger("triage.maker").warning(
            "trace_skipped", file=str(path), problem=str(error)
        )
        return None


def _bounded(node: Node, trace: CaseTrace) -> bytes:
    """Within MAX_BYTES: what the model was told goes first, then turns from the first on."""
    body = _bytes(node, trace)
    if len(body) > MAX_BYTES:
        turns = tuple(turn._replace(observation="", calls=()) for turn in trace.turns)
        trace = trace._replace(turns=turns)
        body = _bytes(node, trace)
    while len(body) > MAX_BYTES and len(trace.turns) > 1:
        trace = trace._replace(turns=trace.turns[1:])
        body = _bytes(node, trace)
    return body


def _bytes(node: Node, trace: CaseTrace) -> bytes:
    return orjson.dumps(trace_json(node, trace), option=orjson.OPT_INDENT_2)


# --- decisions --------------------------------------------------------------------------------


def traces_of_decision(
    document: Mapping[str, Any],
    evidence: Mapping[str, bytes],
    *,
    mask: Mask,
    units: Mapping[str, str] | None = None,
    own: Collection[str] = (),
) -> list[CaseTrace]:
    """One for each node that a fallback worked on, in the decision's order.

    `document` is a decision as `decision_document` makes it, `evidence` its bodies by SHA-256; one
    that is purged is told as a failure. `units` are the site's, `own` the sources that are MCP
    servers themselves. Nobody has said yet whether they are right. Raises ValueError for a document
    of another form.
    """
    try:
        fired_at = datetime.fromisoformat(document["fired_at"]).astimezone(UTC)
        return [
            CaseTrace(
                origin=f"{FROM_DECISION}{document['alert_id']}",
                node=NodeId(text_of(result["node"])),
                site=text_of(document["site"]),
                units=dict(units or {}),
                entity=text_of(document["entity"]),
                timestamp=fired_at.isoformat(),
                expected="",
                verdict=_ended(result),
                right=None,
                turns=turns,
                answers=seen_queries(
                    _asked(result, turns, evidence), own, mask=mask, timestamp=fired_at
                ),
                tokens=sum(turn.prompt_tokens + turn.completion_tokens for turn in turns),
            )
            for result in document["nodes"]
            if "fallback" in result
            for turns in [tuple(read_turn(turn) for turn in result["fallback"]["turns"])]
        ]
    except KeyError as error:
        raise ValueError(f"it is no decision: it has no {error.args[0]!r}") from None
    except (TypeError, AttributeError) as error:
        raise ValueError(f"it is no decision: {error}") from None


def verified(trace: CaseTrace, expected: str) -> CaseTrace:
    """With the word that a person says it should have come to."""
    return trace._replace(expected=expected, right=trace.verdict == expected)


def digests_of(document: Mapping[str, Any], node: str = "") -> tuple[str, ...]:
    """SHA-256 of all answers of a decision's nodes, or of one of them."""
    return tuple(
        dict.fromkeys(
            asked["answer_sha256"]
            for result in document["nodes"]
            if node in ("", result["node"])
            for asked in result["asked"]
            if asked["answer_sha256"]
        )
    )


def _ended(result: Mapping[str, Any]) -> str:
    """Its word, or why the fallback gave none."""
    ended = text_of(result["fallback"]["ended"])
    return word_of(result["verdict"]) if ended == VERDICT else ended


def _asked(
    result: Mapping[str, Any], turns: Sequence[Turn], evidence: Mapping[str, bytes]
) -> Iterator[Asked]:
    """What its code asked. The tool that failed before it is among the same node's queries."""
    told = answers_told(turns)
    for one in result["asked"]:
        query, answer, failure = one["query"], one["answer_sha256"], one["failure"]
        if answer and answer in told:
            body = evidence.get(answer, b"")
            yield Asked(query=query, body=body, failure="" if body else "the answer is purged")
        elif failure is not None and query["kind"] == "call" and not is_lookup(query):
            yield Asked(query=query, body=b"", failure=f"{failure['reason']}: {failure['detail']}")
