"""A source that answers from stored evidence: the same bytes the live source once gave."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from triage.errors import SourceFailed, SourceFailure, ToolFailed, ToolFailure
from triage.model.canonical import sha256_hex
from triage.model.query import Answer, Query, decode_answer, query_digest

Lookup = Callable[[str], Awaitable[bytes | None]]
"""From a SHA-256 in hex to the stored body, None when it was never stored or is purged."""


class RecordedSource:
    """Stands in for the source of the same name.

    `bodies` finds the encoded answer by the digest of its query: a mapping, or a function such
    as a `Recording`. A query it does not know fails as `unrecorded`.
    """

    def __init__(self, name: str, bodies: Mapping[str, bytes] | Lookup) -> None:
        self._name = name
        self._bodies = bodies

    @property
    def name(self) -> str:
        return self._name

    async def open(self) -> None:
        pass

    async def close(self) -> None:
        pass

    async def ask(self, query: Query, *, timeout_s: float) -> Answer:
        digest = query_digest(query)
        body = await self._body(digest, timeout_s)
        if body is None:
            raise SourceFailed(
                SourceFailure.UNRECORDED, f"no recorded answer of {self._name} to {query}"
            )
        try:
            return decode_answer(body)
        except (ValueError, TypeError) as error:
            raise SourceFailed(
                SourceFailure.UNRECORDED,
                f"the recorded answer of {self._name} to query {digest[:12]} cannot be read",
            ) from error

    async def _body(self, digest: str, timeout_s: float) -> bytes | None:
        if isinstance(self._bodies, Mapping):
            return self._bodies.get(digest)
        try:
            async with asyncio.timeout(timeout_s):
                return await self._bodies(digest)
        except TimeoutError:
            raise SourceFailed(
                SourceFailure.TIMEOUT,
                f"the recording of {self._name} did not answer in {timeout_s:g} s",
            ) from None


class Recording:
    """What one decision's queries were answered with, by query digest.

    A query that failed when it was recorded fails in the same way again. Bodies are fetched from
    `evidence` when asked for, and checked against the digest that the decision keeps of them.
    """

    def __init__(self, document: Mapping[str, Any], evidence: Lookup) -> None:
        """`document` is a decision as `decision_document` makes it.

        Raises KeyError for a document that is none.
        """
        self._evidence = evidence
        self._answers: dict[str, str] = {}
        self._failures: dict[str, tuple[str, str]] = {}
        for digest, asked in queries_asked(document).items():
            if asked["answer_sha256"]:
                self._answers[digest] = asked["answer_sha256"]
            elif (failure := asked["failure"]) is not None:
                self._failures[digest] = (failure["reason"], failure["detail"])

    def __len__(self) -> int:
        """Queries known, failed ones included."""
        return len(self._answers.keys() | self._failures.keys())

    async def __call__(self, query_sha256: str) -> bytes | None:
        """The recorded body, None when there is none. Raises what the query once failed with."""
        answer = self._answers.get(query_sha256)
        if answer is None:
            if query_sha256 in self._failures:
                raise _failed_again(*self._failures[query_sha256])
            return None
        body = await self._evidence(answer)
        if body is not None and sha256_hex(body) != answer:
            raise SourceFailed(
                SourceFailure.UNRECORDED,
                f"the stored body {answer[:12]} is not what the decision was made with",
            )
        return body


def queries_asked(document: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """What a decision's tools were answered, by the SHA-256 of the query, in the order asked.

    The tools of one attempt share one answer a query, and a fallback's code asks for itself, maybe
    the same thing later: what it was told counts only where no tool was answered. Raises KeyError
    for a document that is no decision's.
    """
    tools: dict[str, Mapping[str, Any]] = {}
    others: dict[str, Mapping[str, Any]] = {}
    failed: dict[str, Mapping[str, Any]] = {}
    for node in document["nodes"]:
        turns = node["fallback"]["turns"] if "fallback" in node else ()
        told = {call["answer_sha256"] for turn in turns for call in turn["calls"]}
        for asked in node["asked"]:
            answer = asked["answer_sha256"]
            kept = failed if not answer else others if answer in told else tools
            kept[asked["query_sha256"]] = asked
    kept = {**failed, **others, **tools}
    order = (asked["query_sha256"] for node in document["nodes"] for asked in node["asked"])
    return {digest: kept[digest] for digest in dict.fromkeys(order)}


def _failed_again(reason: str, detail: str) -> ToolFailed | SourceFailed:
    if reason in {failure.value for failure in ToolFailure}:
        return ToolFailed(ToolFailure(reason), detail)
    if reason in {failure.value for failure in SourceFailure}:
        return SourceFailed(SourceFailure(reason), detail)
    return SourceFailed(SourceFailure.UNRECORDED, f"it failed as {reason!r}: {detail}")
