"""Reads, closes gaps and deals with dead letters over the daemon's HTTP interface."""

from __future__ import annotations

import ipaddress
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

import httpx
import orjson
import typer

from triage.app.exits import Exit
from triage.app.gaps import not_open
from triage.cli.exit_codes import CommandFailed
from triage.errors import PayloadError
from triage.ports import DecisionFilter

TIMEOUT_S = 10.0
COUNTING_S = 600.0  # a full count reads every row
NEWEST = 1_000  # decisions or gaps (or 200 dead letters) in which a prefix is looked for


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteReader:
    """See `reading.Opened`. Raises CommandFailed for what the daemon did not or would not do."""

    client: httpx.AsyncClient
    shown_url: str

    async def page(
        self, wanted: DecisionFilter, *, cursor: str, limit: int
    ) -> tuple[list[Mapping[str, Any]], str]:
        parameters = {
            "limit": str(limit),
            "cursor": cursor,
            "outcome": wanted.outcome,
            "alarm": wanted.alarm,
            "site": wanted.site,
            "since": _instant(wanted.since),
            "until": _instant(wanted.until),
        }
        return self._page(await self._get("/api/v1/decisions", parameters), "decisions")

    async def decision(self, alert_id: str) -> Mapping[str, Any] | None:
        return await self._one(f"/api/v1/decisions/{quote(alert_id, safe='')}")

    async def ids(self, prefix: str) -> list[str]:
        heads, _ = await self.page(DecisionFilter(), cursor="", limit=NEWEST)
        ids = (str(head.get("alert_id", "")) for head in heads)
        return [alert_id for alert_id in ids if alert_id.startswith(prefix)]

    async def evidence(self, answer_sha256: str) -> bytes | None:
        reply = await self._get(
            f"/api/v1/evidence/{quote(answer_sha256, safe='')}", may_be_missing=True
        )
        return None if reply.status_code == HTTPStatus.NOT_FOUND else reply.content

    async def labels(self, alert_id: str) -> Mapping[str, str] | None:  # noqa: ARG002 - not served
        return None

    async def ledger(self, *, full: bool) -> Mapping[str, Any]:
        reply = await self._get(
            "/api/v1/ledger",
            {"full": "1"} if full else {},
            timeout_s=COUNTING_S if full else TIMEOUT_S,
        )
        return self._object(reply)

    async def gap_page(
        self, *, closed: bool, node: str, cursor: str, limit: int
    ) -> tuple[list[Mapping[str, Any]], str]:
        parameters = {
            "limit": str(limit),
            "cursor": cursor,
            "node": node,
            "closed": "1" if closed else "",
        }
        return self._page(await self._get("/api/v1/gaps", parameters), "gaps")

    async def gap(self, gap_id: str, *, cases: int) -> Mapping[str, Any] | None:
        return await self._one(_gap_path(gap_id), {"limit": str(cases)})

    async def gap_ids(self, prefix: str) -> list[str]:
        found = []
        for closed in (False, True):
            page, _ = await self.gap_page(closed=closed, node="", cursor="", limit=NEWEST)
            found += [str(one.get("gap_id", "")) for one in page]
        return [gap_id for gap_id in found if gap_id.startswith(prefix)]

    async def close_gap(self, gap_id: str, *, by: str, note: str) -> None:
        reply = await self._ask(
            "POST",
            f"{_gap_path(gap_id)}/close",
            body={"by": by, "note": note},
            may_be_missing=True,
        )
        if reply.status_code == HTTPStatus.NOT_FOUND:
            raise CommandFailed(not_open(gap_id, None), Exit.FINDINGS)
        self._object(reply)

    async def dead_letter_page(
        self, *, reason: str, cursor: str, limit: int
    ) -> tuple[list[Mapping[str, Any]], str]:
        parameters = {"limit": str(limit), "cursor": cursor, "reason": reason}
        return self._page(await self._get("/api/v1/dead-letters", parameters), "dead_letters")

    async def dead_letter(self, dead_letter_id: str) -> Mapping[str, Any] | None:
        return await self._one(_dead_letter_path(dead_letter_id))

    async def dead_letter_ids(self, prefix: str) -> list[str]:
        page, _ = await self.dead_letter_page(reason="", cursor="", limit=NEWEST)
        found = [str(one.get("dead_letter_id", "")) for one in page]
        return [dead_letter_id for dead_letter_id in found if dead_letter_id.startswith(prefix)]

    async def redrive(self, dead_letter_id: str, *, by: str) -> Mapping[str, Any] | None:
        path = f"{_dead_letter_path(dead_letter_id)}/redrive"
        reply = await self._ask("POST", path, body={"by": by}, may_be_missing=True)
        return None if reply.status_code == HTTPStatus.NOT_FOUND else self._object(reply)

    async def discard(self, dead_letter_id: str, *, by: str, note: str) -> bool:
        path = f"{_dead_letter_path(dead_letter_id)}/discard"
        reply = await self._ask("POST", path, body={"by": by, "note": note}, may_be_missing=True)
        if reply.status_code == HTTPStatus.NOT_FOUND:
            return False
        self._object(reply)
        return True

    async def finding_page(
        self, *, node: str, cursor: str, limit: int
    ) -> tuple[list[Mapping[str, Any]], str]:
        parameters = {"limit": str(limit), "cursor": cursor, "node": node}
        return self._page(await self._get("/api/v1/findings", parameters), "findings")

    async def shadows(self, node: str) -> list[Mapping[str, Any]]:
        return self._list(
            self._object(await self._get("/api/v1/shadows", {"node": node})), "shadows"
        )

    async def comparison_page(
        self, node: str, *, shadow: int, active: int, result: str, cursor: str, limit: int
    ) -> tuple[list[Mapping[str, Any]], str]:
        parameters = {
            "shadow": str(shadow),
            "active": str(active),
            "limit": str(limit),
            "cursor": cursor,
            "result": result,
        }
        path = f"/api/v1/shadows/{quote(node, safe='')}/comparisons"
        reply = await self._get(path, parameters, may_be_missing=True)
        if reply.status_code == HTTPStatus.NOT_FOUND:
            raise CommandFailed(_problem(reply) or "it has none of these", Exit.FINDINGS)
        return self._page(reply, "comparisons")

    async def _one(
        self, path: str, parameters: Mapping[str, str] | None = None
    ) -> Mapping[str, Any] | None:
        reply = await self._get(path, parameters, may_be_missing=True)
        return None if reply.status_code == HTTPStatus.NOT_FOUND else self._object(reply)

    async def _get(
        self,
        path: str,
        parameters: Mapping[str, str] | None = None,
        *,
        timeout_s: float = TIMEOUT_S,
        may_be_missing: bool = False,
    ) -> httpx.Response:
        """`parameters` that are empty are left out."""
        given = {name: value for name, value in (parameters or {}).items() if value}
        return await self._ask(
            "GET", path, given, timeout_s=timeout_s, may_be_missing=may_be_missing
        )

    async def _ask(
        self,
        method: str,
        path: str,
        parameters: Mapping[str, str] | None = None,
        *,
        body: object = None,
        timeout_s: float = TIMEOUT_S,
        may_be_missing: bool = False,
    ) -> httpx.Response:
        """A 2xx; with `may_be_missing` also triage's own 404."""
        try:
            reply = await self.client.request(
                method, path, params=parameters, json=body, timeout=timeout_s
            )
        except httpx.TimeoutException:
            raise CommandFailed(
                f"{self.shown_url} did not answer in {timeout_s:g} s", Exit.UNAVAILABLE
            ) from None
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise CommandFailed(
                f"{self.shown_url} cannot be reached: {error} — is the daemon running there?",
                Exit.UNAVAILABLE,
            ) from None
        if reply.is_success:
            return reply
        problem = _problem(reply)
        if problem is None:
            raise self._no_triage()
        match reply.status_code:
            case HTTPStatus.UNAUTHORIZED | HTTPStatus.FORBIDDEN:
                raise CommandFailed(
                    f"{self.shown_url} refused: {problem} — give a token that may"
                    f" {'read' if method == 'GET' else 'change things'} with"
                    " --token-env or --token-file",
                    Exit.CONFIG,
                )
            case HTTPStatus.BAD_REQUEST:
                raise PayloadError("", problem)
            case HTTPStatus.NOT_FOUND if may_be_missing:
                return reply
            case HTTPStatus.UNPROCESSABLE_ENTITY:
                raise PayloadError(_field(reply), problem)
            case HTTPStatus.CONFLICT:
                raise CommandFailed(problem, Exit.FINDINGS)
            case status:
                raise CommandFailed(
                    f"{self.shown_url} answered {status}: {problem}", Exit.UNAVAILABLE
                )

    def _page(self, reply: httpx.Response, of: str) -> tuple[list[Mapping[str, Any]], str]:
        document = self._object(reply)
        try:
            return self._list(document, of), str(document["cursor"])
        except KeyError:
            raise self._no_triage() from None

    def _list(self, document: Mapping[str, Any], of: str) -> list[Mapping[str, Any]]:
        try:
            return list(document[of])
        except (KeyError, TypeError):
            raise self._no_triage() from None

    def _object(self, reply: httpx.Response) -> Mapping[str, Any]:
        try:
            document = orjson.loads(reply.content)
        except orjson.JSONDecodeError:
            raise self._no_triage() from None
        if not isinstance(document, dict):
            raise self._no_triage()
        return document

    def _no_triage(self) -> CommandFailed:
        return CommandFailed(
            f"{self.shown_url} does not answer like triage: is it the right address?",
            Exit.UNAVAILABLE,
        )


@asynccontextmanager
async def remote_reader(url: str, token: str) -> AsyncIterator[RemoteReader]:
    """Raises BadParameter for what is no http URL."""
    try:
        parsed = httpx.URL(url)
    except (httpx.InvalidURL, TypeError):
        parsed = httpx.URL("")
    if parsed.scheme not in {"http", "https"} or not parsed.host:
        raise typer.BadParameter("write http://HOST:PORT", param_hint="--url")
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    # A proxy of the environment has no business between this machine and itself.
    async with httpx.AsyncClient(
        base_url=parsed, headers=headers, trust_env=not _is_loopback(parsed.host)
    ) as client:
        yield RemoteReader(client=client, shown_url=f"{parsed.scheme}://{parsed.netloc.decode()}")


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _problem(reply: httpx.Response) -> str | None:
    """What triage says is wrong; None from a server that does not speak as it does."""
    try:
        return str(orjson.loads(reply.content)["error"]["problem"])
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return None


def _field(reply: httpx.Response) -> str:
    """What field of a payload triage complains of, of an answer that has a `_problem`."""
    return str(orjson.loads(reply.content)["error"].get("field", ""))


def _dead_letter_path(dead_letter_id: str) -> str:
    return f"/api/v1/dead-letters/{quote(dead_letter_id, safe='')}"


def _gap_path(gap_id: str) -> str:
    return f"/api/v1/gaps/{quote(gap_id, safe='')}"


def _instant(moment: datetime | None) -> str:
    return moment.isoformat() if moment is not None else ""
