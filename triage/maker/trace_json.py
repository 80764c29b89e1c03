"""A trace as JSON: in the form of `fallback.examples`, with what a maker wants to know besides."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from triage.maker.model import CaseTrace, SeenAnswer, SeenField
from triage.model.decision import NodeId
from triage.model.trace import VERDICT, CallRecord, Trace, Turn, trace_document
from triage.model.verdict import WORDS
from triage.sop.procedure import Node


def trace_json(node: Node, trace: CaseTrace) -> dict[str, Any]:
    """As JSON types, stable across versions: a trace's document as decisions have it, with what
    was asked, what came of it, and what the sources' answers looked like."""
    ended = VERDICT if trace.verdict in WORDS else trace.verdict
    own = Trace("", "", "", "", ended=ended, turns=trace.turns)
    said = trace_document(own)
    return {
        "origin": trace.origin,
        "question": {"node": node.node, "text": node.text, "sources": list(node.sources)},
        "site": trace.site,
        "units": dict(trace.units),
        "entity": trace.entity,
        "timestamp": trace.timestamp,
        "expected": trace.expected,
        "verdict": {"value": trace.verdict if ended == VERDICT else None},
        "right": trace.right,
        "ended": ended,
        "tokens": trace.tokens,
        "turns": said["turns"],
        "answers": [_answer_json(answer) for answer in trace.answers],
    }


def read_trace(document: object, node: NodeId) -> CaseTrace:
    """The inverse of `trace_json`. Raises ValueError, which says what it lacks."""
    if not isinstance(document, Mapping):
        raise ValueError("it is no object")
    try:
        _same_node(document, node)
        ended = text_of(document["ended"])
        return CaseTrace(
            origin=text_of(document["origin"]),
            node=node,
            site=text_of(document["site"]),
            units={text_of(name): text_of(unit) for name, unit in document["units"].items()},
            entity=text_of(document["entity"]),
            timestamp=text_of(document["timestamp"]),
            expected=text_of(document["expected"]),
            verdict=word_of(document["verdict"]["value"]) if ended == VERDICT else ended,
            right=_right(document["right"]),
            turns=tuple(read_turn(turn) for turn in document["turns"]),
            answers=tuple(_answer(answer) for answer in document["answers"]),
            tokens=_count(document["tokens"]),
        )
    except KeyError as error:
        raise ValueError(f"it has no {error.args[0]!r}") from None
    except (TypeError, AttributeError) as error:
        raise ValueError(f"it is no trace: {error}") from None


def _same_node(document: Mapping[str, Any], node: NodeId) -> None:
    told = document["question"]["node"]
    if told != node:
        raise ValueError(f"it is a trace of node {told!r}, and lies in the folder of {node!r}")


def _answer_json(answer: SeenAnswer) -> dict[str, Any]:
    return {**answer._asdict(), "fields": [field._asdict() for field in answer.fields]}


def _answer(document: Mapping[str, Any]) -> SeenAnswer:
    step = document["step_s"]
    query = document["query"]
    if not isinstance(query, dict):
        raise TypeError("a query is an object")
    return SeenAnswer(
        query=query,
        kind=text_of(document["kind"]),
        size=_count(document["size"]),
        fields=tuple(_field(field) for field in document["fields"]),
        step_s=None if step is None else _number(step),
        gaps=_count(document["gaps"]),
        failure=text_of(document["failure"]),
    )


def _field(document: Mapping[str, Any]) -> SeenField:
    low, high = document["low"], document["high"]
    return SeenField(
        name=text_of(document["name"]),
        types=tuple(text_of(kind) for kind in document["types"]),
        count=_count(document["count"]),
        nulls=_count(document["nulls"]),
        low=None if low is None else _number(low),
        high=None if high is None else _number(high),
        examples=tuple(text_of(example) for example in document["examples"]),
    )


def read_turn(document: Mapping[str, Any]) -> Turn:
    return Turn(
        thought=text_of(document["thought"]),
        code=text_of(document["code"]),
        calls=tuple(_call(call) for call in document["calls"]),
        observation=text_of(document["observation"]),
        prompt_tokens=_count(document["prompt_tokens"]),
        completion_tokens=_count(document["completion_tokens"]),
        model_ms=float(_number(document["model_ms"])),
        sandbox_ms=float(_number(document["sandbox_ms"])),
    )


def _call(document: Mapping[str, Any]) -> CallRecord:
    return CallRecord(
        function=text_of(document["function"]),
        arguments=text_of(document["arguments"]),
        ok=bool(document["ok"]),
        error=text_of(document["error"]),
        answer_bytes=_count(document["answer_bytes"]),
        answer_sha256=text_of(document["answer_sha256"]),
        elapsed_ms=float(_number(document["elapsed_ms"])),
    )


def text_of(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{type(value).__name__} in place of text")
    return value


def _count(value: object) -> int:
    if type(value) is not int or value < 0:
        raise TypeError(f"{type(value).__name__} in place of a count")
    return value


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{type(value).__name__} in place of a number")
    return value


def word_of(value: object) -> str:
    if value not in WORDS:
        raise ValueError(f"verdict.value must be one of {', '.join(WORDS)}")
    return str(value)


def _right(value: object) -> bool | None:
    if value is None or isinstance(value, bool):
        return value
    raise TypeError(f"{type(value).__name__} in place of a truth value")
