"""The body of a successful answer, read into a completion."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from triage.adapters.chat.refusals import error_of
from triage.adapters.chat.setback import Setback
from triage.errors import ModelFailure
from triage.ports import Completion

BYTES_A_TOKEN = 4
MAX_TOKENS = 10**9
"""A larger count is nonsense, and would not fit into a column."""
LONGEST_WORD = 40
FINISHES = {"max_tokens": "length", "content_filter": "refused", "refusal": "refused"}


def read_completion(body: bytes, *, prompt_bytes: int) -> Completion | Setback:
    """An answer without text is a completion with none: what to make of it is not for here to
    say. Only the first choice counts, as one was asked for."""
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        return _malformed(f"is not JSON: {error}")
    choice = _choice(document)
    if isinstance(choice, Setback):
        return choice
    message = choice["message"]
    text = _text(message.get("content"))
    if text is None:
        return _malformed("has content that is no text")
    finish = _finish(choice.get("finish_reason"))
    refusal = message.get("refusal")
    if isinstance(refusal, str) and refusal:
        text, finish = text or refusal, "refused"
    usage = document.get("usage")
    counts: Mapping[str, Any] = usage if isinstance(usage, dict) else {}
    return Completion(
        text=text,
        finish=finish,
        prompt_tokens=_tokens(counts.get("prompt_tokens"), prompt_bytes),
        completion_tokens=_tokens(counts.get("completion_tokens"), len(text.encode())),
    )


def _choice(document: Any) -> dict[str, Any] | Setback:
    """The first choice, its message an object."""
    choices = document.get("choices") if isinstance(document, dict) else None
    if not isinstance(choices, list) or not choices:
        if isinstance(document, dict) and document.get("error"):
            # Some gateways put an error into a 200.
            return _malformed("is an error", said=error_of(document).text)
        return _malformed("has no choices")
    choice = choices[0]
    if not isinstance(choice, dict) or not isinstance(choice.get("message"), dict):
        return _malformed("has a choice without a message")
    return choice


def _text(content: Any) -> str | None:
    """A string, or the texts of a list of parts; "" for null, None for anything else."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return None
    texts: list[str] = []
    for part in content:
        if isinstance(part, str):
            texts.append(part)
        elif not isinstance(part, dict):
            return None
        elif isinstance(text := part.get("text"), str):
            texts.append(text)
        # Parts of other kinds (an image, reasoning) are passed over.
    return "".join(texts)


def _finish(reason: Any) -> str:
    """The port's word. Some servers give none when the reply came to its end."""
    if not isinstance(reason, str) or not reason:
        return "stop"
    word = "".join(char for char in reason[:LONGEST_WORD] if char.isprintable())
    return FINISHES.get(word, word or "stop")


def _tokens(counted: Any, size: int) -> int:
    """The endpoint's count, or one token for every four bytes where it gives none; servers that
    do not count say 0."""
    if isinstance(counted, int) and not isinstance(counted, bool) and 0 < counted <= MAX_TOKENS:
        return counted
    return -(-size // BYTES_A_TOKEN)


def _malformed(problem: str, said: str = "") -> Setback:
    return Setback(
        failure=ModelFailure.PROTOCOL, problem=f"gave an answer that {problem}", said=said
    )
