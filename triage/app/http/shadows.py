"""Shadows: how often each agreed, and the comparisons that did not, to read."""

from __future__ import annotations

from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response

from triage.app.http.access import LONGEST_NUMBER, Gate
from triage.app.http.paging import page_limit
from triage.app.http.replies import HttpProblem, reply, store_unavailable
from triage.app.shadows import chosen, comparison_document, not_compared, tally_document
from triage.errors import PayloadError, StoreError
from triage.ports import Compared, ShadowLog

KEPT = (Compared.DIFFERS, Compared.UNRECORDED, Compared.FAILED)
_RESULTS = {"": None, **{result.value: result for result in KEPT}}


@dataclass(frozen=True, slots=True, kw_only=True)
class ShadowServices:
    shadows: ShadowLog
    gate: Gate


class ShadowEndpoints:
    def __init__(self, services: ShadowServices) -> None:
        self._services = services

    async def tallies(self, request: Request) -> Response:
        """Of all nodes, or of the parameter `node`: some few a node, so it is no page."""
        self._services.gate.admit(request, "read")
        try:
            found = await self._services.shadows.tallies(request.query_params.get("node", ""))
        except StoreError as error:
            raise store_unavailable(error) from error
        return reply({"shadows": [tally_document(tally) for tally in found]})

    async def comparisons(self, request: Request) -> Response:
        """Of the node's newest pair, or of the newest with the versions `shadow` and `active`."""
        self._services.gate.admit(request, "read")
        node, query = request.path_params["node"], request.query_params
        if (given := query.get("result", "")) not in _RESULTS:
            known = ", ".join(result.value for result in KEPT)
            raise HttpProblem(400, f"result must be one of {known}")
        versions = {name: _version(request, name) for name in ("shadow", "active")}
        limit = page_limit(request)
        try:
            tallies = await self._services.shadows.tallies(node)
            tally = chosen(tallies, **versions)
            if tally is None:
                raise HttpProblem(404, not_compared(node, tallies))
            page = await self._services.shadows.comparison_page(
                tally.pair,
                result=_RESULTS[given],
                cursor=query.get("cursor", ""),
                limit=limit,
            )
        except PayloadError as error:
            raise HttpProblem(400, str(error)) from error
        except StoreError as error:
            raise store_unavailable(error) from error
        return reply(
            {
                "comparisons": [comparison_document(one) for one in page.comparisons],
                "cursor": page.cursor,
            }
        )


def _version(request: Request, name: str) -> int | None:
    given = request.query_params.get(name, "")
    if not given:
        return None
    if not (given.isascii() and given.isdecimal()) or len(given) > LONGEST_NUMBER:
        raise HttpProblem(400, f"{name} must be the number of a version")
    return int(given)
