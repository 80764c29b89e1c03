"""What the fake and the recording can do beyond the source contract."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from triage.adapters.memory import MemorySource
from triage.adapters.recorded import RecordedSource, Recording, queries_asked
from triage.errors import SourceFailed, SourceFailure, ToolFailed, ToolFailure
from triage.model.canonical import sha256_hex
from triage.model.query import Query, Reading, Rows, Samples, encode_answer, query_digest

T0 = datetime(2026, 1, 5, 12, 0, tzinfo=UTC)
QUERY = Samples("metrics", "up", T0, T0 + timedelta(seconds=60))
OTHER = Samples("metrics", "down", T0, T0 + timedelta(seconds=60))
ANSWER = (Reading({"host": "a"}, 1.0),)
OUTAGE = SourceFailed(SourceFailure.SERVER_ERROR, "on purpose")


class TestMemorySource:
    async def test_it_knows_what_it_was_asked(self) -> None:
        source = MemorySource("metrics", {QUERY: ANSWER, OTHER: ()})
        await source.ask(OTHER, timeout_s=1)
        await source.ask(QUERY, timeout_s=1)
        assert source.asked == [OTHER, QUERY]

    async def test_it_need_not(self) -> None:
        source = MemorySource("metrics", {QUERY: ANSWER}, keep_asked=False)
        await source.ask(QUERY, timeout_s=1)
        assert source.asked == []

    async def test_what_it_lacks_is_no_empty_answer(self) -> None:
        with pytest.raises(SourceFailed) as caught:
            await MemorySource("metrics", {}).ask(QUERY, timeout_s=1)
        assert caught.value.failure is SourceFailure.UNRECORDED

    async def test_an_exception_among_the_answers_is_raised(self) -> None:
        def answers(query: Query) -> Any:
            return ANSWER if query == QUERY else OUTAGE

        source = MemorySource("metrics", answers)
        assert await source.ask(QUERY, timeout_s=1) == ANSWER
        with pytest.raises(SourceFailed, match="on purpose"):
            await source.ask(OTHER, timeout_s=1)

    async def test_held_asks_go_on_when_released(self) -> None:
        source = MemorySource("metrics", {QUERY: ANSWER})
        source.hold()
        task = asyncio.create_task(source.ask(QUERY, timeout_s=30))
        await source.waiting.wait()
        assert not task.done()
        source.release()
        assert await task == ANSWER
        assert await source.ask(QUERY, timeout_s=0) == ANSWER

    async def test_held_asks_run_out_of_time(self) -> None:
        source = MemorySource("metrics", {QUERY: ANSWER})
        source.hold()
        with pytest.raises(SourceFailed) as caught:
            await source.ask(QUERY, timeout_s=0)
        assert caught.value.failure is SourceFailure.TIMEOUT

    async def test_it_fails_until_told_otherwise(self) -> None:
        source = MemorySource("metrics", {QUERY: ANSWER})
        source.fail_with(OUTAGE)
        for _ in range(2):
            with pytest.raises(SourceFailed, match="on purpose"):
                await source.ask(QUERY, timeout_s=1)
        source.fail_with(None)
        assert await source.ask(QUERY, timeout_s=1) == ANSWER

    async def test_held_and_failing(self) -> None:
        source = MemorySource("metrics", {QUERY: ANSWER})
        source.hold()
        source.fail_with(OUTAGE)
        task = asyncio.create_task(source.ask(QUERY, timeout_s=30))
        await source.waiting.wait()
        source.release()
        with pytest.raises(SourceFailed, match="on purpose"):
            await task


def _document(*asked: dict[str, Any]) -> dict[str, Any]:
    return {"nodes": [{"asked": [one]} for one in asked]}


def _asked(query: Query, answer_sha256: str = "", reason: str = "") -> dict[str, Any]:
    failure = {"reason": reason, "detail": "as it was"} if reason else None
    return {
        "query_sha256": query_digest(query),
        "answer_sha256": answer_sha256,
        "failure": failure,
    }


BODY = encode_answer(ANSWER)


class TestRecording:
    async def test_it_answers_from_the_evidence(self) -> None:
        stored = {sha256_hex(BODY): BODY}

        async def evidence(digest: str) -> bytes | None:
            return stored.get(digest)

        recording = Recording(_document(_asked(QUERY, sha256_hex(BODY))), evidence)
        source = RecordedSource("metrics", recording)
        assert len(recording) == 1
        assert await source.ask(QUERY, timeout_s=1) == ANSWER
        with pytest.raises(SourceFailed, match="no recorded answer") as caught:
            await source.ask(OTHER, timeout_s=1)
        assert caught.value.failure is SourceFailure.UNRECORDED
        stored.clear()  # purged
        with pytest.raises(SourceFailed) as caught:
            await source.ask(QUERY, timeout_s=1)
        assert caught.value.failure is SourceFailure.UNRECORDED

    @pytest.mark.parametrize(
        ("reason", "kind", "failure"),
        [
            ("source_timeout", SourceFailed, SourceFailure.TIMEOUT),
            ("query_rejected", ToolFailed, ToolFailure.QUERY_REJECTED),
            ("a word of another version", SourceFailed, SourceFailure.UNRECORDED),
        ],
    )
    async def test_a_failure_is_repeated(
        self,
        reason: str,
        kind: type[ToolFailed | SourceFailed],
        failure: ToolFailure | SourceFailure,
    ) -> None:
        async def evidence(_: str) -> bytes | None:
            return pytest.fail("nothing was stored")

        recording = Recording(_document(_asked(QUERY, reason=reason)), evidence)
        with pytest.raises(kind, match="as it was") as caught:
            await RecordedSource("metrics", recording).ask(QUERY, timeout_s=1)
        assert caught.value.reason == failure.value

    async def test_an_answer_counts_more_than_another_nodes_failure(self) -> None:
        async def evidence(_: str) -> bytes | None:
            return BODY

        both = _document(_asked(QUERY, reason="deadline"), _asked(QUERY, sha256_hex(BODY)))
        source = RecordedSource("metrics", Recording(both, evidence))
        assert await source.ask(QUERY, timeout_s=1) == ANSWER

    @pytest.mark.parametrize("agent_first", [True, False])
    async def test_what_a_tool_was_told_counts_more_than_what_a_fallback_was(
        self, agent_first: bool
    ) -> None:
        """It asks for itself, at another moment; and its answer is there for a query of its own."""
        late = encode_answer(())
        bodies = {sha256_hex(body): body for body in (BODY, late)}
        calls = [{"answer_sha256": sha256_hex(late)}]
        nodes: list[dict[str, Any]] = [
            {
                "asked": [_asked(QUERY, sha256_hex(late)), _asked(OTHER, sha256_hex(late))],
                "fallback": {"turns": [{"calls": []}, {"calls": calls}]},
            },
            {"asked": [_asked(QUERY, sha256_hex(BODY))]},
        ]
        document = {"nodes": nodes if agent_first else nodes[::-1]}

        async def evidence(digest: str) -> bytes | None:
            return bodies[digest]

        source = RecordedSource("metrics", Recording(document, evidence))
        assert await source.ask(QUERY, timeout_s=1) == ANSWER
        assert await source.ask(OTHER, timeout_s=1) == ()
        order = [QUERY, OTHER]
        assert list(queries_asked(document)) == [query_digest(query) for query in order]

    async def test_a_body_that_was_changed_is_no_evidence(self) -> None:
        async def evidence(_: str) -> bytes | None:
            return encode_answer(())

        recording = Recording(_document(_asked(QUERY, sha256_hex(BODY))), evidence)
        with pytest.raises(SourceFailed, match="not what the decision") as caught:
            await RecordedSource("metrics", recording).ask(QUERY, timeout_s=1)
        assert caught.value.failure is SourceFailure.UNRECORDED

    async def test_evidence_that_does_not_come(self) -> None:
        async def evidence(_: str) -> bytes | None:
            await asyncio.Event().wait()
            return None

        recording = Recording(_document(_asked(QUERY, "ab")), evidence)
        with pytest.raises(SourceFailed) as caught:
            await RecordedSource("metrics", recording).ask(QUERY, timeout_s=0)
        assert caught.value.failure is SourceFailure.TIMEOUT


class TestRecordedSource:
    @pytest.mark.parametrize("body", [b"", b"{}", b'{"series":[1]}'])
    async def test_a_body_nobody_can_read(self, body: bytes) -> None:
        source = RecordedSource("metrics", {query_digest(QUERY): body})
        with pytest.raises(SourceFailed, match="cannot be read") as caught:
            await source.ask(QUERY, timeout_s=1)
        assert caught.value.failure is SourceFailure.UNRECORDED

    async def test_any_kind_of_query(self) -> None:
        query = Rows("db", "select 1 as one")
        source = RecordedSource("db", {query_digest(query): encode_answer(({"one": 1},))})
        assert await source.ask(query, timeout_s=1) == ({"one": 1},)
