"""The equipment as a source without a process: what the MCP server answers, for many calls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from bench.world.catalogue import EQUIPMENT
from bench.world.equipment_answers import CALLS, BadCall, ServedEquipment
from triage.errors import ToolFailed, ToolFailure
from triage.model.canonical import canonical_json
from triage.model.query import Answer, Call, Query


class WorldEquipment:
    """Answers `Call` queries as the server does through the MCP adapter, to the byte. An ask
    never waits."""

    def __init__(self, equipment: ServedEquipment, *, name: str = EQUIPMENT) -> None:
        self._equipment = equipment
        self._name = name

    @property
    def name(self) -> str:
        return self._name

    async def open(self) -> None:
        pass

    async def close(self) -> None:
        pass

    async def ask(self, query: Query, *, timeout_s: float) -> Answer:  # noqa: ARG002 - of the port
        if not isinstance(query, Call):
            raise self._rejected(f"it answers call(…) only, not {type(query).__name__}")
        if query.tool not in CALLS:
            raise self._rejected(
                f"there is no tool {query.tool!r}: the server has {', '.join(sorted(CALLS))}"
            )
        given = orjson.loads(query.arguments)
        wanted = ("site", "at") if query.tool == "routes" else ("site", "at", "asset")
        words = [self._word(query.tool, given, key) for key in wanted]
        try:
            told = self._equipment.answer(query.tool, *words)
        except BadCall as error:
            raise self._rejected(f"tool {query.tool!r}: it reported an error: {error}") from None
        # Decoding what was encoded gives the order of keys that a recording has.
        return orjson.loads(canonical_json(told))

    def _word(self, tool: str, given: Mapping[str, Any], key: str) -> str:
        value = given.get(key)
        if not isinstance(value, str):
            raise self._rejected(f"tool {tool!r}: {key!r} must be given, as a string")
        return value

    def _rejected(self, detail: str) -> ToolFailed:
        return ToolFailed(ToolFailure.QUERY_REJECTED, f"source {self._name!r}: {detail}")
