"""When a chat endpoint is asked again, how soon, and with what left out."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import orjson
import pytest

from tests.integration.chat_world import (
    GOOD,
    MAX_TOKENS,
    HandTime,
    ask,
    endpoint,
    error,
    failure,
    refuse,
)
from tests.scripted_server import (
    Request,
    ScriptedServer,
    hang_up,
    in_turn,
    reply,
)
from tests.servers import HOST, free_port
from triage.adapters.chat import ChatEndpoint
from triage.errors import ModelFailure

NOW = datetime(2030, 5, 6, 7, 8, 9, tzinfo=UTC)
DATE = "Mon, 06 May 2030 07:08:09 GMT"
FOUR_LATER = "Mon, 06 May 2030 07:08:13 GMT"


@pytest.mark.both_loops
class TestRetries:
    @pytest.mark.parametrize("status", [429, 502, 503, 529])
    async def test_turned_away_it_asks_again(self, status: int) -> None:
        time = HandTime()
        async with (
            ScriptedServer(in_turn(refuse(status), refuse(status), GOOD)) as server,
            endpoint(server.url, time) as model,
        ):
            assert (await ask(model)).text == "It is."
        assert len(server.requests) == 3
        assert time.slept == [0.125, 0.25]

    @pytest.mark.parametrize(
        ("status", "expected"),
        [(429, ModelFailure.RATE_LIMITED), (503, ModelFailure.SERVER_ERROR)],
    )
    async def test_not_for_ever(self, status: int, expected: ModelFailure) -> None:
        async with (
            ScriptedServer(refuse(status, error("later"))) as server,
            endpoint(server.url) as model,
        ):
            assert f"answered {status}: later" in await failure(model, expected)
        assert len(server.requests) == 3

    @pytest.mark.parametrize("jitter", [0.0, 0.5, 0.999])
    async def test_pauses_are_jittered(self, jitter: float) -> None:
        time = HandTime()
        async with ScriptedServer(in_turn(refuse(503), refuse(429), GOOD)) as server:
            model = ChatEndpoint(
                "small",
                server.url,
                monotonic=time.monotonic,
                sleep=time.sleep,
                jitter=lambda: jitter,
            )
            await ask(model)
            await model.close()
        assert time.slept == [0.25 * (0.5 + jitter / 2), 0.5 * (0.5 + jitter / 2)]

    @pytest.mark.parametrize(
        ("headers", "seconds"),
        [
            ({"Retry-After": "7"}, 7.0),
            ({"Retry-After": "0"}, 0.0),
            ({"Retry-After": "1.5"}, 1.5),
            ({"Retry-After": FOUR_LATER}, 4.0),
            ({"Retry-After": FOUR_LATER, "Date": DATE.replace(":09 ", ":11 ")}, 2.0),
            ({"Retry-After": DATE.replace("2030", "2020")}, 0.0),
            ({"Retry-After": "soon"}, 0.125),
            ({"Retry-After": "-7"}, 0.125),
        ],
    )
    @pytest.mark.parametrize("status", [429, 503])
    async def test_it_waits_as_long_as_it_is_told(
        self, status: int, headers: dict[str, str], seconds: float
    ) -> None:
        time = HandTime()
        async with (
            ScriptedServer(in_turn(reply(status, b"", headers), GOOD)) as server,
            endpoint(server.url, time, now=lambda: NOW) as model,
        ):
            await ask(model)
        assert time.slept == [seconds]

    @pytest.mark.parametrize("wait", ["30", "31", "9" * 9, DATE.replace("2030", "2031")])
    async def test_longer_than_the_time_left_it_does_not_wait(self, wait: str) -> None:
        time = HandTime()
        async with (
            ScriptedServer(refuse(429, Retry_After=wait)) as server,
            endpoint(server.url, time, now=lambda: NOW) as model,
        ):
            await failure(model, ModelFailure.RATE_LIMITED, timeout_s=30.0)
        assert time.slept == []
        assert len(server.requests) == 1

    async def test_time_already_spent_counts(self) -> None:
        time = HandTime()

        async def slow(request: Request, writer: asyncio.StreamWriter) -> None:
            time.passes(21.0)
            await refuse(503, Retry_After="10")(request, writer)

        async with ScriptedServer(slow) as server, endpoint(server.url, time) as model:
            await failure(model, ModelFailure.SERVER_ERROR, timeout_s=30.0)
        assert time.slept == []

    async def test_an_endpoint_that_is_not_there_is_tried_again(self) -> None:
        time = HandTime()
        async with endpoint(f"http://{HOST}:{free_port()}", time) as model:
            detail = await failure(model, ModelFailure.CONNECT)
        assert "cannot be reached" in detail
        assert "check llm_url" in detail
        assert time.slept == [0.125, 0.25]

    async def test_it_may_have_come_back(self) -> None:
        server = ScriptedServer(GOOD)
        async with server:
            pass  # has a port from now on, and nobody listens there

        class Comeback(HandTime):
            async def sleep(self, seconds: float) -> None:
                await server.__aenter__()

        async with endpoint(server.url, Comeback()) as model:
            assert (await ask(model)).text == "It is."
        await server.close()

    async def test_a_kept_connection_that_had_ended_is_no_failure(self) -> None:
        async with (
            ScriptedServer(in_turn(GOOD, hang_up(), GOOD)) as server,
            endpoint(server.url) as model,
        ):
            await ask(model)
            assert (await ask(model)).text == "It is."
        assert len(server.requests) == 3


@pytest.mark.both_loops
class TestParameters:
    async def test_what_a_model_does_not_take_is_left_out_from_then_on(self) -> None:
        asked: list[dict[str, object]] = []

        async def reasoning(request: Request, writer: asyncio.StreamWriter) -> None:
            form = orjson.loads(request.body)
            asked.append(form)
            answer = GOOD
            for name, code in (
                ("max_tokens", "unsupported_parameter"),
                ("temperature", "unsupported_value"),
            ):
                if name in form:
                    answer = refuse(400, error("no", param=name, code=code))
                    break
            await answer(request, writer)

        async with ScriptedServer(reasoning) as server, endpoint(server.url) as model:
            await ask(model)
            await ask(model)
        assert len(asked) == 4
        for form in asked[2:]:
            assert form.keys() == {"model", "messages", "max_completion_tokens", "stream"}
            assert form["max_completion_tokens"] == MAX_TOKENS

    @pytest.mark.parametrize("name", ["messages", "max_tokens"])
    async def test_it_does_not_learn_for_ever(self, name: str) -> None:
        refusal = refuse(400, error("no", param=name, code="unsupported_parameter"))
        async with ScriptedServer(refusal) as server, endpoint(server.url) as model:
            await failure(model, ModelFailure.REJECTED)
        assert len(server.requests) == (1 if name == "messages" else 2)

    @pytest.mark.parametrize(
        "refusal",
        [
            {"message": "no", "param": "response_format", "code": "unsupported_parameter"},
            {"message": "'response_format' of type 'json_schema' is not supported", "code": None},
            {"message": "invalid", "param": "response_format.json_schema", "code": "invalid"},
        ],
    )
    async def test_it_does_without_a_schema_where_none_is_offered(
        self, refusal: dict[str, object]
    ) -> None:
        asked: list[dict[str, object]] = []

        async def plain(request: Request, writer: asyncio.StreamWriter) -> None:
            form = orjson.loads(request.body)
            asked.append(form)
            answer = GOOD
            if "response_format" in form:
                answer = refuse(400, orjson.dumps({"error": refusal}))
            await answer(request, writer)

        schema = {"type": "object"}
        async with (
            ScriptedServer(plain) as server,
            endpoint(server.url, reply_schema=schema) as model,
        ):
            await ask(model)
            await ask(model)
        assert ["response_format" in form for form in asked] == [True, False, False]
        assert asked[0]["response_format"] == {
            "type": "json_schema",
            "json_schema": {"name": "reply", "strict": True, "schema": schema},
        }
