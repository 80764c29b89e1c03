"""Asks the fallback's endpoint which models it has. Spends no tokens."""

from __future__ import annotations

import asyncio
import ssl
import time
from http import HTTPStatus

import httpx
import orjson

from triage.adapters.chat.address import PATH, Address, address
from triage.adapters.chat.refusals import read_error
from triage.adapters.chat.scrub import Scrub
from triage.app.fallback_section import FallbackSection
from triage.cli.source_report import ServerReport
from triage.errors import ConfigError

WHERE = "fallback"
MAX_BYTES = 4 << 20
NAMED = 8  # models of a list that one line names
NO_LIST = frozenset({HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED})
"""An endpoint that has none is there all the same."""


async def probe_model(section: FallbackSection, *, timeout_s: float) -> ServerReport:
    """Never raises for what the endpoint does."""
    began = time.monotonic()
    label = problem = fix = state = ""
    try:
        where = address(section.llm_url, section.secret("api_key"))
        label = where.shown
        tls = ssl.create_default_context(cafile=str(section.ca_file) if section.ca_file else None)
        async with asyncio.timeout(timeout_s):
            status, body = await _get(where, tls, timeout_s)
        state, said, fix = _judged(section.model, status, body, Scrub(where.secrets))
        problem = f"{label} {said}" if said else ""
    except ConfigError as error:
        problem = str(error)
    except TimeoutError:
        problem = f"{label} did not answer in {timeout_s:g} s"
        fix = "is it running, and not overloaded?"
    except (httpx.HTTPError, OSError) as error:
        problem = f"{label} cannot be asked: {str(error) or type(error).__name__}"
        fix = "is it running, and is llm_url its address?"
    return ServerReport(
        where=WHERE,
        label=label,
        state=state,
        problem=problem,
        fix=fix,
        elapsed_ms=(time.monotonic() - began) * 1000,
    )


async def _get(where: Address, tls: ssl.SSLContext, timeout_s: float) -> tuple[int, bytes]:
    """The body is read no further than MAX_BYTES."""
    base = where.url.path.removesuffix(PATH)
    # No proxies of the environment and no redirects: the key goes where the configuration says.
    async with (
        httpx.AsyncClient(
            verify=tls, headers=dict(where.headers), trust_env=False, timeout=timeout_s
        ) as client,
        client.stream("GET", where.url.copy_with(path=f"{base}/models")) as response,
    ):
        body = bytearray()
        async for chunk in response.aiter_raw():
            body += chunk
            if len(body) > MAX_BYTES:
                break
        return response.status_code, bytes(body)


def _judged(model: str, status: int, body: bytes, scrub: Scrub) -> tuple[str, str, str]:
    """State, problem, fix."""
    if status in NO_LIST:
        return f"answers, and lists no models ({status})", "", ""
    if status in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}:
        said = scrub.line(read_error(body).text)
        return "", f"refuses the key ({status}): {said}", "mend api_key_env or api_key_file"
    if status != HTTPStatus.OK:
        said = scrub.line(read_error(body).text)
        return "", f"answered {status}: {said}", "is llm_url the base of its API, ending in /v1?"
    found = _models(body)
    if found is None:
        return "", "answers unlike an OpenAI-compatible API", "is llm_url the base of its API?"
    if found and model not in found:
        named = ", ".join(found[:NAMED]) + (", …" if len(found) > NAMED else "")
        return "", f"has no model {model!r}", f"set model to one of {scrub.line(named)}"
    return f"model {model}", "", ""


def _models(body: bytes) -> list[str] | None:
    """Their names; None for what is no list of models."""
    try:
        return [str(one["id"]) for one in orjson.loads(body)["data"]]
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return None
