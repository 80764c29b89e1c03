"""`python -m bench.fallback.endpoint`: an OpenAI-compatible endpoint that answers from a script.

It sees what a model would see, the messages, and nothing else. At the start it is told a
procedure's texts with the code that answers each, as a model would have it from its training;
`answering` says how it finds the question. In place of that it can hang, fail, flood or make a
mistake first, as `POST /control` with `{"mode": …}` tells it while it runs. `GET /control` counts
what it was asked since it started.

Tokens are bytes of UTF-8 by four. A reply longer than the request's `max_tokens` is cut off there,
as any endpoint would.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

import orjson
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from bench.fallback.answering import Script, read_script
from bench.servers import HOST

MODEL = "script"
BYTES_A_TOKEN = 4
FLOOD_BYTES = (10 << 20, 1_000_000)
"""By turns: more than any client takes, and what one may well take."""
FLOOD_CHUNK = b"never mind " * 5_000
HUNG_UP = 499


class Mode(StrEnum):
    SCRIPT = "script"
    """The right code, at once."""
    MISTAKEN = "mistaken"
    """A mistake in the first reply, and the right code once the prompt shows what came of it."""
    HANG = "hang"
    """Accepts, and never answers."""
    ERROR = "error"
    """500, at once."""
    FLOOD = "flood"
    """A reply of megabytes, without code."""


@dataclass(slots=True, kw_only=True)
class Counts:
    """`refused` are prompts in which no known question was found. Tokens are of replies that were
    begun, whoever read them to their end."""

    requests: Counter[str] = field(default_factory=Counter)
    refused: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0

    def document(self) -> dict[str, Any]:
        return {
            "requests": sum(self.requests.values()),
            "by_mode": {mode.value: self.requests[mode.value] for mode in Mode},
            "refused": self.refused,
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
        }


class Endpoint:
    """Of one process; `mode` may change while requests are under way."""

    def __init__(self, script: Script, mode: Mode = Mode.SCRIPT) -> None:
        self._script = script
        self.mode = mode
        self.counts = Counts()

    def application(self) -> Starlette:
        return Starlette(
            routes=[
                Route("/v1/chat/completions", self._complete, methods=["POST"]),
                Route("/v1/models", _models),
                Route("/control", self._control, methods=["GET", "POST"]),
                Route("/-/ready", _ready),
            ]
        )

    async def _complete(self, request: Request) -> Response:
        asked = await _json(request)
        messages = asked.get("messages") if isinstance(asked, dict) else None
        if not isinstance(messages, list) or not all(map(_is_message, messages)):
            return _error(400, "messages must be a list of {role, content}")
        mode = self.mode
        self.counts.requests[mode.value] += 1
        prompt_tokens = tokens(*(message["content"] for message in messages))
        self.counts.prompt_tokens += prompt_tokens
        match mode:
            case Mode.HANG:
                return await _hang(request)
            case Mode.ERROR:
                return _error(500, "the model fell over")
            case Mode.FLOOD:
                size = FLOOD_BYTES[self.counts.requests[mode.value] % len(FLOOD_BYTES)]
                self.counts.completion_tokens += size // BYTES_A_TOKEN
                return StreamingResponse(_flood(size), media_type="application/json")
            case Mode.SCRIPT | Mode.MISTAKEN:
                return self._reply(asked, messages, prompt_tokens, mistaken=mode is Mode.MISTAKEN)

    def _reply(
        self, asked: Any, messages: list[Any], prompt_tokens: int, *, mistaken: bool
    ) -> Response:
        reply = self._script.reply(
            [(message["role"], message["content"]) for message in messages], mistaken=mistaken
        )
        self.counts.refused += not reply.known
        limit = asked.get("max_tokens") or asked.get("max_completion_tokens")
        text, finish = _within(reply.text, limit)
        completion_tokens = tokens(text)
        self.counts.completion_tokens += completion_tokens
        return JSONResponse(
            {
                "id": f"chatcmpl-{sum(self.counts.requests.values())}",
                "object": "chat.completion",
                "created": 0,
                "model": MODEL,
                "choices": [
                    {
                        "index": 0,
                        "message": {"role": "assistant", "content": text}
                        if reply.known
                        else {"role": "assistant", "content": None, "refusal": text},
                        "finish_reason": finish,
                    }
                ],
                "usage": {
                    "prompt_tokens": prompt_tokens,
                    "completion_tokens": completion_tokens,
                    "total_tokens": prompt_tokens + completion_tokens,
                },
            }
        )

    async def _control(self, request: Request) -> Response:
        if request.method == "POST":
            wanted = await _json(request)
            try:
                self.mode = Mode(wanted["mode"])
            except (KeyError, TypeError, ValueError):
                return _error(400, f"mode must be one of {', '.join(Mode)}")
        return JSONResponse({"mode": self.mode.value, **self.counts.document()})


def tokens(*texts: str) -> int:
    return sum(len(text.encode()) for text in texts) // BYTES_A_TOKEN


def _within(text: str, max_tokens: Any) -> tuple[str, str]:
    """The reply as far as it may go, and why it ends."""
    if not isinstance(max_tokens, int) or tokens(text) <= max_tokens:
        return text, "stop"
    return text.encode()[: max_tokens * BYTES_A_TOKEN].decode(errors="ignore"), "length"


def _is_message(message: Any) -> bool:
    return (
        isinstance(message, dict)
        and isinstance(message.get("role"), str)
        and isinstance(message.get("content"), str)
    )


async def _models(_request: Request) -> Response:
    return JSONResponse({"object": "list", "data": [{"id": MODEL, "object": "model"}]})


async def _ready(_request: Request) -> Response:
    return PlainTextResponse("ready")


async def _json(request: Request) -> Any:
    try:
        return orjson.loads(await request.body())
    except orjson.JSONDecodeError:
        return None


async def _hang(request: Request) -> Response:
    """Until the other side hangs up; nobody reads what is returned then."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
    return Response(status_code=HUNG_UP)


async def _flood(size: int) -> AsyncIterator[bytes]:
    yield b'{"id":"chatcmpl-flood","object":"chat.completion","created":0,"model":"script",'
    yield b'"choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"'
    for _ in range(size // len(FLOOD_CHUNK)):
        yield FLOOD_CHUNK
    yield b'"}}]}'


def _error(status: int, problem: str) -> Response:
    return JSONResponse({"error": {"message": problem, "type": "endpoint"}}, status_code=status)


def main(argv: list[str] | None = None) -> None:
    """Serves until it is ended."""
    parser = argparse.ArgumentParser(prog="python -m bench.fallback.endpoint")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--sop", type=Path, required=True)
    parser.add_argument("--library", type=Path, required=True, help="with a tool for every text")
    chosen = parser.parse_args(argv)
    endpoint = Endpoint(read_script(chosen.sop, chosen.library))
    uvicorn.run(
        endpoint.application(), host=HOST, port=chosen.port, log_level="warning", lifespan="off"
    )


if __name__ == "__main__":
    main()
