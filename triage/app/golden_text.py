"""Golden cases as text: what `triage test add` writes, and what `--update` changes."""

from __future__ import annotations

import json
import re
import zlib
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from textwrap import wrap
from typing import Any

import orjson

from triage.model.alert import Alert
from triage.model.decision import Failure
from triage.sop.located import Located

READABLE = 1_000  # bytes of an answer that is kept as it is; a longer one is packed
LINE = 96  # characters of a packed answer on one line

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]*")
_NO_WORDS = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})
_ALWAYS = ("outcome", "root_causes", "actions", "dropped_actions", "verdicts")

Document = Mapping[str, Any]


def expectation(document: Document) -> dict[str, Any]:
    """What a case expects that is to stay as the decision was; `document` is a decision's."""
    entity = document["entity"]
    return {
        "outcome": document["outcome"],
        "reason": document["reason"],
        "degraded": document["degraded"],
        "verdicts": {node["node"]: _verdict(node, entity) for node in document["nodes"]},
        "root_causes": [
            {"node": cause["node"], "subject": cause["subject"]}
            for cause in document["root_causes"]
        ],
        "actions": [
            {"action": action["action"], "subject": action["subject"]}
            for action in document["actions"]
        ],
        "dropped_actions": [
            {
                "action": action["action"],
                "subject": action["subject"],
                "reason": action["dropped"],
                "by": action["by"],
            }
            for action in document["dropped_actions"]
        ],
    }


def _verdict(node: Document, entity: str) -> Any:
    word: Any = {"true": True, "false": False}.get(node["verdict"], node["verdict"])
    if node["subject"] in ("", entity):
        return word
    return {"verdict": word, "subject": node["subject"]}


def case_text(
    *,
    about: str,
    alert: Alert,
    document: Document,
    answers: Sequence[tuple[Document, bytes | Failure]],
) -> bytes:
    """A recorded case. `answers` pairs a query's document with what it was answered with."""
    expected = expectation(document)
    stated = {part: value for part, value in expected.items() if part in _ALWAYS or value}
    origin = f"SOP {_scalar(document['sop'])} version {document['sop_version']}"
    lines = [
        f"# Recorded from decision {alert.alert_id} of {origin}.",
        *([f"about: {_scalar(about)}"] if about else []),
        "alert:",
        *(f"  {key}: {_flow(value)}" for key, value in _alert(alert).items()),
        *expect_lines(stated),
        "answers:" if answers else "answers: []",
    ]
    for query, answer in answers:
        lines.append(f"- query: {_flow(query)}")
        lines += _answer_lines(answer)
    return ("\n".join(lines) + "\n").encode()


def _alert(alert: Alert) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "id": alert.alert_id,
        "alarm": alert.alarm,
        "entity": alert.entity,
        "site": alert.site,
        "severity": alert.severity.value,
        "fired_at": alert.fired_at.isoformat(),
        "accepted_at": alert.accepted_at.isoformat(),
        "integration": alert.integration,
        "tenant": alert.tenant,
        "fingerprint": alert.fingerprint,
        "labels": dict(alert.labels),
        "annotations": dict(alert.annotations),
    }
    return {key: value for key, value in entry.items() if value or key == "alarm"}


def _answer_lines(answer: bytes | Failure) -> list[str]:
    if isinstance(answer, Failure):
        return [f"  failure: {_flow({'reason': answer.reason, 'detail': answer.detail})}"]
    text = answer.decode()
    if len(answer) <= READABLE and text.isprintable():
        return ["  answer: '" + text.replace("'", "''") + "'"]
    packed = b64encode(zlib.compress(answer, 9)).decode()
    return ["  packed: |", *(f"    {line}" for line in wrap(packed, LINE))]


# --- expectations -----------------------------------------------------------------------------


def expect_lines(stated: Document) -> Iterator[str]:
    yield "expect:"
    for part, value in stated.items():
        if isinstance(value, Mapping) and value:
            yield f"  {part}:"
            yield from (f"    {_scalar(key)}: {_flow(one)}" for key, one in value.items())
        elif isinstance(value, list) and value:
            yield f"  {part}:"
            yield from (f"  - {_flow(one)}" for one in value)
        else:
            yield f"  {part}: {_flow(value)}"


def with_expectation(body: bytes, located: Located, document: Document) -> bytes | None:
    """The file with every part of its expectation as `document` has it; all else stays as it is,
    comments included. None for a file whose parts do not stand on lines of their own."""
    expected = expectation(document)
    stated = {part: expected[part] for part in located.data["expect"]}
    if body.lstrip().startswith(b"{") and located.positions[()] == (1, 1):
        return _json_with(body, stated)
    keys = {path[0]: at for path, at in located.positions.items() if len(path) == 1}
    begin, column = keys.pop("expect")
    if column != 1:
        return None
    lines = body.decode().split("\n")
    end = min((line for line, _ in keys.values() if line > begin), default=len(lines) + 1)
    while end - 2 >= begin and _is_between(lines[end - 2]):
        end -= 1
    return "\n".join([*lines[: begin - 1], *expect_lines(stated), *lines[end - 1 :]]).encode()


def _is_between(line: str) -> bool:
    """A comment above the next key is that key's, and blank lines part the two."""
    return not line.strip() or line.startswith("#")


def _json_with(body: bytes, stated: Document) -> bytes | None:
    try:
        data = orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
    return orjson.dumps({**data, "expect": stated}, option=orjson.OPT_INDENT_2) + b"\n"


# --- YAML that reads the same everywhere ------------------------------------------------------


def _flow(value: Any) -> str:
    """A value on one line."""
    match value:
        case Mapping():
            return (
                "{" + ", ".join(f"{_scalar(key)}: {_flow(one)}" for key, one in value.items()) + "}"
            )
        case list() | tuple():
            return "[" + ", ".join(map(_flow, value)) + "]"
        case str():
            return _scalar(value)
        case _:
            return orjson.dumps(value).decode()


def _scalar(text: str) -> str:
    """Quoted unless every version of YAML takes it for text as it is."""
    if _PLAIN.fullmatch(text) and text.lower() not in _NO_WORDS:
        return text
    quoted = json.dumps(text, ensure_ascii=False)
    return quoted if quoted.isprintable() else "".join(map(_spelled, quoted))


def _spelled(character: str) -> str:
    if character.isprintable():
        return character
    code = ord(character)
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"  # noqa: PLR2004 - four hex digits
