"""A chat endpoint's breaker and cap; cancelling and closing; TLS."""

from __future__ import annotations

import asyncio
import gc
from pathlib import Path

import pytest

from tests.certificates import both_in, served_with
from tests.integration.chat_world import (
    GOOD,
    HandTime,
    ask,
    endpoint,
    failure,
    refuse,
    turns,
)
from tests.scripted_server import (
    Request,
    Script,
    ScriptedServer,
    hang,
    in_turn,
    reply,
)
from tests.servers import HOST
from triage.adapters.chat import ChatEndpoint
from triage.errors import ConfigError, ModelFailed, ModelFailure
from triage.ports import Completion

CUT_OFF_STEPS = 40  # iterations of the loop: more than a call takes


@pytest.mark.both_loops
class TestBreaker:
    @pytest.mark.parametrize(
        ("script", "expected"),
        [
            (refuse(500), ModelFailure.SERVER_ERROR),
            (refuse(429), ModelFailure.RATE_LIMITED),
            (refuse(401), ModelFailure.REJECTED),
            (refuse(404), ModelFailure.REJECTED),
            (reply(200, b"{}"), ModelFailure.PROTOCOL),
        ],
    )
    async def test_it_opens_and_one_call_probes(
        self, script: Script, expected: ModelFailure
    ) -> None:
        time = HandTime()
        async with (
            ScriptedServer(script) as server,
            endpoint(server.url, time, breaker_failures=3, breaker_reset_s=30.0) as model,
        ):
            for _ in range(3):
                assert model.trouble == ""
                await failure(model, expected)
            asked = len(server.requests)
            assert f"http://{HOST}:{server.port} failed 3 times in a row" in model.trouble
            assert "asked again in 30 s; the last time: " in model.trouble
            assert await failure(model, ModelFailure.BREAKER_OPEN) == model.trouble
            time.passes(29.5)
            assert "in a moment" in await failure(model, ModelFailure.BREAKER_OPEN)
            assert len(server.requests) == asked

            time.passes(0.5)
            assert model.trouble == ""  # or nobody would ask, and it would never close
            release = asyncio.Event()
            server.script = _answers_when(release, GOOD)
            probe = asyncio.create_task(_completed(model))
            await server.arrived(asked + 1)
            assert "just being asked again" in await failure(model, ModelFailure.BREAKER_OPEN)
            release.set()
            assert (await probe).text == "It is."
            assert model.trouble == ""
            await ask(model)

    async def test_a_failed_probe_opens_it_for_as_long_again(self) -> None:
        time = HandTime()
        async with (
            ScriptedServer(refuse(500)) as server,
            endpoint(server.url, time, breaker_failures=2, breaker_reset_s=30.0) as model,
        ):
            for _ in range(2):
                await failure(model, ModelFailure.SERVER_ERROR)
            time.passes(30.0)
            await failure(model, ModelFailure.SERVER_ERROR)
            time.passes(29.0)
            await failure(model, ModelFailure.BREAKER_OPEN)
            time.passes(1.0)
            server.script = GOOD
            await ask(model)
        assert len(server.requests) == 4

    async def test_hanging_opens_it(self) -> None:
        async with (
            ScriptedServer(in_turn(GOOD, hang())) as server,
            endpoint(server.url, breaker_failures=1) as model,
        ):
            await ask(model)
            await failure(model, ModelFailure.TIMEOUT, timeout_s=0.05)
            await failure(model, ModelFailure.BREAKER_OPEN)
            assert "gave no whole answer" in model.trouble
        assert len(server.requests) == 2

    async def test_a_request_at_fault_says_that_the_endpoint_is_well(self) -> None:
        scripts = (refuse(500), refuse(400), refuse(500), refuse(413), refuse(500), GOOD)
        async with (
            ScriptedServer(in_turn(*scripts)) as server,
            endpoint(server.url, breaker_failures=2) as model,
        ):
            for expected in (ModelFailure.SERVER_ERROR, ModelFailure.REJECTED) * 2:
                await failure(model, expected)
            await failure(model, ModelFailure.SERVER_ERROR)
            assert model.trouble == ""
            await ask(model)

    async def test_failures_have_to_be_in_a_row(self) -> None:
        async with (
            ScriptedServer(in_turn(refuse(500), GOOD, refuse(500))) as server,
            endpoint(server.url, breaker_failures=2) as model,
        ):
            await failure(model, ModelFailure.SERVER_ERROR)
            await ask(model)
            await failure(model, ModelFailure.SERVER_ERROR)
            assert model.trouble == ""

    async def test_a_cancelled_probe_leaves_the_next_one_to_probe(self) -> None:
        time = HandTime()
        async with (
            ScriptedServer(in_turn(refuse(500), hang(), GOOD)) as server,
            endpoint(server.url, time, breaker_failures=1, breaker_reset_s=30.0) as model,
        ):
            await failure(model, ModelFailure.SERVER_ERROR)
            time.passes(30.0)
            probe = asyncio.create_task(_completed(model))
            await server.arrived(2)
            probe.cancel()
            with pytest.raises(asyncio.CancelledError):
                await probe
            assert (await ask(model)).text == "It is."
            assert model.trouble == ""

    async def test_who_waited_for_a_slot_finds_it_open(self) -> None:
        release = asyncio.Event()
        async with (
            ScriptedServer(_answers_when(release, refuse(500))) as server,
            endpoint(server.url, max_requests=1, breaker_failures=1) as model,
        ):
            first = asyncio.create_task(_completed(model))
            await server.arrived(1)
            second = asyncio.create_task(_completed(model))
            await turns(5)
            release.set()
            ended = await asyncio.gather(first, second, return_exceptions=True)
        assert [error.failure for error in ended if isinstance(error, ModelFailed)] == [
            ModelFailure.SERVER_ERROR,
            ModelFailure.BREAKER_OPEN,
        ]
        assert len(server.requests) == 1


@pytest.mark.both_loops
class TestCap:
    async def test_no_more_than_so_many_at_once(self) -> None:
        release = asyncio.Event()
        async with (
            ScriptedServer(_answers_when(release, GOOD)) as server,
            endpoint(server.url, max_requests=2) as model,
        ):
            tasks = [asyncio.create_task(_completed(model)) for _ in range(5)]
            await server.arrived(2)
            busy = await failure(model, ModelFailure.BUSY, timeout_s=0.05)
            assert f"the 2 requests to http://{HOST}:{server.port}" in busy
            assert "max_requests" in busy
            assert len(server.requests) == 2
            assert model.trouble == ""
            release.set()
            assert {done.text for done in await asyncio.gather(*tasks)} == {"It is."}
        assert len(server.requests) == 5

    @pytest.mark.parametrize("cancels", [1, 2])
    async def test_cancelled_calls_take_no_slot_and_no_connection_with_them(
        self, cancels: int
    ) -> None:
        """At any await, and while others wait for a slot."""
        slots = 4
        all_at_once = asyncio.Barrier(slots)

        async def together(request: Request, writer: asyncio.StreamWriter) -> None:
            async with all_at_once:
                await GOOD(request, writer)

        async with ScriptedServer(GOOD) as server:
            async with endpoint(server.url, max_requests=slots) as model:
                for steps in range(CUT_OFF_STEPS):
                    tasks = [asyncio.create_task(_completed(model)) for _ in range(3 * slots)]
                    await turns(steps)
                    for task in tasks[::2]:
                        for _ in range(cancels):
                            task.cancel()
                    for ended in await asyncio.gather(*tasks, return_exceptions=True):
                        assert isinstance(ended, Completion | asyncio.CancelledError), ended
                server.script = together  # ends only if all slots are there
                await asyncio.gather(*(ask(model) for _ in range(slots)))
            gc.collect()


@pytest.mark.both_loops
class TestEnds:
    async def test_cancelled_while_the_model_thinks(self) -> None:
        async with ScriptedServer(hang()) as server, endpoint(server.url) as model:
            task = asyncio.create_task(_completed(model))
            await server.arrived(1)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await server.hung_up.wait()

    async def test_cancelled_between_two_attempts(self) -> None:
        pausing = asyncio.Event()

        class Stuck(HandTime):
            async def sleep(self, seconds: float) -> None:
                pausing.set()
                await asyncio.Event().wait()

        async with (
            ScriptedServer(in_turn(refuse(503), GOOD)) as server,
            endpoint(server.url, Stuck(), max_requests=1) as model,
        ):
            task = asyncio.create_task(_completed(model))
            await pausing.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await ask(model)

    async def test_closing_ends_what_is_under_way(self) -> None:
        async with ScriptedServer(hang()) as server, endpoint(server.url) as model:
            task = asyncio.create_task(_completed(model))
            await server.arrived(1)
            await model.close()
            with pytest.raises(ModelFailed, match="is closed"):
                await task
            assert "is closed" in await failure(model, ModelFailure.CONNECT)
            assert model.trouble == ""

    async def test_closing_at_any_await_leaves_no_connection_open(self) -> None:
        """One left open would warn when it is collected, and warnings fail tests."""
        async with ScriptedServer(GOOD) as server:
            for steps in range(CUT_OFF_STEPS):
                async with endpoint(server.url) as model:
                    task = asyncio.create_task(_completed(model))
                    await turns(steps)
                (ended,) = await asyncio.gather(task, return_exceptions=True)
                if not isinstance(ended, Completion):
                    assert isinstance(ended, ModelFailed)
                    assert ended.failure is ModelFailure.CONNECT
                del ended, task
            gc.collect()

    async def test_closed_without_ever_having_been_asked(self) -> None:
        model = ChatEndpoint("small", "http://host/v1")
        await model.close()
        await model.close()


@pytest.mark.both_loops
class TestTls:
    async def test_an_authority_that_is_trusted(self, certificate: Path) -> None:
        async with (
            ScriptedServer(GOOD, tls=served_with(certificate)) as server,
            endpoint(server.url, ca_file=str(certificate)) as model,
        ):
            await model.open()
            assert (await ask(model)).text == "It is."

    async def test_an_authority_nobody_trusts(self, certificate: Path) -> None:
        async with (
            ScriptedServer(GOOD, tls=served_with(certificate)) as server,
            endpoint(server.url) as model,
        ):
            detail = await failure(model, ModelFailure.CONNECT)
        assert "certificate" in detail
        assert "ca_file" in detail
        assert server.requests == []

    @pytest.mark.parametrize("content", [None, "no certificate"])
    async def test_a_file_that_is_none(self, tmp_path: Path, content: str | None) -> None:
        file = tmp_path / "ca.pem"
        if content is not None:
            file.write_text(content)
        async with endpoint("https://host", ca_file=str(file)) as model:
            with pytest.raises(ConfigError, match=r"ca\.pem cannot be used"):
                await model.open()
            assert "ca.pem cannot be used" in await failure(model, ModelFailure.CONNECT)


async def _completed(model: ChatEndpoint) -> Completion:
    return await ask(model)


def _answers_when(release: asyncio.Event, script: Script) -> Script:
    async def waits(request: Request, writer: asyncio.StreamWriter) -> None:
        await release.wait()
        await script(request, writer)

    return waits


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return both_in(tmp_path_factory.mktemp("tls"))
