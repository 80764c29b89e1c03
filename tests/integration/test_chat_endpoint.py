"""A chat endpoint against a server that does as it is told: what is sent, and what comes back."""

from __future__ import annotations

import asyncio
import logging
from base64 import b64encode

import orjson
import pytest

from tests.integration.chat_world import (
    GOOD,
    KEY,
    PROMPT,
    TIMEOUT_S,
    HandTime,
    ask,
    completion,
    endpoint,
    error,
    failure,
    refuse,
)
from tests.scripted_server import (
    Request,
    Script,
    ScriptedServer,
    close_mid_body,
    dribble,
    flood,
    garbage,
    gzip_bomb,
    hang,
    hang_up,
    head,
    in_turn,
    reply,
)
from tests.servers import HOST, free_port
from triage.adapters.chat import ChatEndpoint
from triage.errors import ModelFailed, ModelFailure
from triage.ports import ChatModel, Completion

MIB = 1 << 20


def _headers_only() -> Script:
    async def script(_: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(head(200, {"Content-Type": "application/json", "Content-Length": "100"}))
        await writer.drain()
        await asyncio.Event().wait()

    return script


def _in_pieces(body: bytes, size: int) -> Script:
    """Chunked, so many bytes a chunk, all at once."""

    async def script(_: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(head(200, {"Transfer-Encoding": "chunked"}))
        parts = (body[at : at + size] for at in range(0, len(body), size))
        writer.write(b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts))
        writer.write(b"0\r\n\r\n")
        await writer.drain()

    return script


@pytest.mark.both_loops
class TestRequest:
    async def test_what_is_sent(self) -> None:
        async with ScriptedServer(GOOD) as server, endpoint(server.url, temperature=0.5) as model:
            port: ChatModel = model
            got = await port.complete(PROMPT, max_tokens=50, timeout_s=TIMEOUT_S)
        assert got == Completion("It is.", "stop", 21, 4)
        (request,) = server.requests
        assert (request.method, request.target) == ("POST", "/v1/chat/completions")
        assert request.headers["authorization"] == f"Bearer {KEY}"
        assert request.headers["content-type"] == "application/json"
        assert request.headers["accept-encoding"] == "identity"
        assert request.headers["host"] == f"{HOST}:{server.port}"
        assert orjson.loads(request.body) == {
            "model": "small",
            "messages": [
                {"role": "system", "content": "You answer."},
                {"role": "user", "content": "Is it late?"},
            ],
            "max_tokens": 50,
            "temperature": 0.5,
            "stream": False,
        }

    async def test_without_a_key_nothing_is_sent_to_prove_oneself(self) -> None:
        async with ScriptedServer(GOOD) as server, endpoint(server.url, api_key="") as model:
            await ask(model)
        assert "authorization" not in server.requests[0].headers

    async def test_user_information_goes_as_a_header_and_is_never_shown(self) -> None:
        said = "user us%40er with p%3Ass at http://us%40er:p%3Ass@other/ is p:ss"
        async with ScriptedServer(refuse(401, error(said))) as server:
            url = f"http://us%40er:p%3Ass@{HOST}:{server.port}"
            async with endpoint(url, api_key="") as model:
                detail = await failure(model, ModelFailure.REJECTED)
                shown = f"{model!r} {model.name} {model.trouble}"
        assert "ss" not in detail.replace("address", "") + shown
        assert f"http://{HOST}:{server.port} answered 401" in detail
        sent = b64encode(b"us@er:p:ss").decode()
        assert server.requests[0].headers["authorization"] == f"Basic {sent}"
        assert server.requests[0].headers["host"] == f"{HOST}:{server.port}"

    async def test_one_connection_serves_calls_in_a_row(self) -> None:
        peers = set()

        async def script(request: Request, writer: asyncio.StreamWriter) -> None:
            peers.add(writer.get_extra_info("peername"))
            await GOOD(request, writer)

        async with ScriptedServer(script) as server, endpoint(server.url) as model:
            for _ in range(3):
                await ask(model)
        assert len(peers) == 1

    async def test_no_cookies_are_kept(self) -> None:
        baker = reply(200, completion(), {"Set-Cookie": "a=b"})
        async with ScriptedServer(baker) as server, endpoint(server.url) as model:
            await ask(model)
            await ask(model)
        assert "cookie" not in server.requests[1].headers

    async def test_proxies_of_the_environment_are_not_used(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, f"http://{HOST}:{free_port()}")
        async with ScriptedServer(GOOD) as server, endpoint(server.url) as model:
            assert (await ask(model)).text == "It is."

    async def test_logs_hold_neither_key_nor_prompt(self, caplog: pytest.LogCaptureFixture) -> None:
        # By name: what configured logging before may have quieted the library.
        caplog.set_level(logging.DEBUG)
        caplog.set_level(logging.DEBUG, logger="httpcore")
        async with (
            ScriptedServer(in_turn(GOOD, refuse(401, error(f"no {KEY}")))) as server,
            endpoint(server.url) as model,
        ):
            await ask(model)
            await failure(model, ModelFailure.REJECTED)
        assert "send_request_headers" in caplog.text  # the library does log
        assert KEY not in caplog.text
        assert "Is it late" not in caplog.text


ANSWERS: dict[str, tuple[bytes, Completion]] = {
    "cut off": (completion("It", "length"), Completion("It", "length", 21, 4)),
    "filtered": (completion(None, "content_filter"), Completion("", "refused", 21, 4)),
    "refusal": (completion(None, "stop", refusal="No."), Completion("No.", "refused", 21, 4)),
    "no content": (completion(None), Completion("", "stop", 21, 4)),
    "empty": (completion(""), Completion("", "stop", 21, 4)),
    "calls a tool": (
        completion(None, "tool_calls", tool_calls=[{"id": "1"}]),
        Completion("", "tool_calls", 21, 4),
    ),
    "no finish": (completion("It is.", None), Completion("It is.", "stop", 21, 4)),
    "parts": (
        completion([{"type": "text", "text": "It "}, {"type": "image"}, {"text": "is."}]),
        Completion("It is.", "stop", 21, 4),
    ),
    "no usage": (
        orjson.dumps({"choices": [{"message": {"content": "It is now."}}]}),
        Completion("It is now.", "stop", 6, 3),  # 22 and 10 bytes at 4 a token, rounded up
    ),
    "silly usage": (
        orjson.dumps(
            {
                "choices": [{"message": {"content": "ä" * 4}}],
                "usage": {"prompt_tokens": -1, "completion_tokens": "many"},
            }
        ),
        Completion("ä" * 4, "stop", 6, 2),
    ),
}

OUTAGES: dict[str, tuple[Script, ModelFailure, str]] = {
    "internal": (refuse(500, error("a bug")), ModelFailure.SERVER_ERROR, "answered 500: a bug"),
    "gateway timeout": (refuse(504, b"late"), ModelFailure.SERVER_ERROR, "answered 504: late"),
    "bad key": (refuse(401, error("who?")), ModelFailure.REJECTED, "check the API key"),
    "forbidden": (refuse(403), ModelFailure.REJECTED, "may use the model"),
    "no such model": (refuse(404, error("no small")), ModelFailure.REJECTED, "no small; check"),
    "too long a prompt": (
        refuse(400, error("over 4096 tokens", code="context_length_exceeded")),
        ModelFailure.REJECTED,
        "answered 400: over 4096 tokens",
    ),
    "no valid request": (
        refuse(422, b'{"detail":[{"loc":["body"],"msg":"missing"}]}'),
        ModelFailure.REJECTED,
        '"msg":"missing"',
    ),
    "redirect": (
        refuse(302, Location="http://elsewhere/"),
        ModelFailure.PROTOCOL,
        "redirects are not followed: set llm_url",
    ),
    "permanent redirect": (refuse(308, Location="/v2"), ModelFailure.PROTOCOL, "not followed"),
    "no JSON": (reply(200, b"<html>"), ModelFailure.PROTOCOL, "not JSON"),
    "no UTF-8": (reply(200, b'{"choices":"\xff"}'), ModelFailure.PROTOCOL, "not JSON"),
    "nothing": (reply(200, b""), ModelFailure.PROTOCOL, "not JSON"),
    "no content at all": (refuse(204), ModelFailure.PROTOCOL, "not JSON"),
    "no object": (reply(200, b"[]"), ModelFailure.PROTOCOL, "no choices"),
    "no choices": (reply(200, b"{}"), ModelFailure.PROTOCOL, "no choices"),
    "empty choices": (reply(200, b'{"choices":[]}'), ModelFailure.PROTOCOL, "no choices"),
    "choice is null": (reply(200, b'{"choices":[null]}'), ModelFailure.PROTOCOL, "a message"),
    "no message": (reply(200, b'{"choices":[{}]}'), ModelFailure.PROTOCOL, "a message"),
    "content is a number": (reply(200, completion(7)), ModelFailure.PROTOCOL, "is no text"),
    "part is a number": (reply(200, completion([7])), ModelFailure.PROTOCOL, "is no text"),
    "error in a 200": (
        reply(200, error("upstream is down")),
        ModelFailure.PROTOCOL,
        "is an error: upstream is down",
    ),
    "deeply nested": (reply(200, b"[" * 100_000), ModelFailure.PROTOCOL, "not JSON"),
    "garbage": (garbage(), ModelFailure.PROTOCOL, "gave no HTTP answer"),
    "gzip unasked": (gzip_bomb(100_000_000), ModelFailure.PROTOCOL, "compresses"),
    "hangs up": (hang_up(), ModelFailure.PROTOCOL, "gave no HTTP answer"),
    "closes in the body": (close_mid_body(completion()), ModelFailure.PROTOCOL, "broke off"),
    "10 MB": (reply(200, completion("x" * 10_000_000)), ModelFailure.PROTOCOL, "more than"),
    "10 MB in pieces": (
        _in_pieces(completion("x" * 10_000_000), 65_536),
        ModelFailure.PROTOCOL,
        f"more than {MIB} bytes",
    ),
    "a length beyond counting": (
        refuse(200, Content_Length="9" * 5_000),
        ModelFailure.PROTOCOL,
        "",
    ),
}


@pytest.mark.both_loops
class TestAnswers:
    @pytest.mark.parametrize("about", ANSWERS)
    async def test_answers(self, about: str) -> None:
        body, expected = ANSWERS[about]
        async with ScriptedServer(reply(200, body)) as server, endpoint(server.url) as model:
            assert await ask(model) == expected

    @pytest.mark.parametrize("about", OUTAGES)
    async def test_outages(self, about: str) -> None:
        """Each ends at once, is asked for once, and spoils nothing for the next."""
        script, expected, words = OUTAGES[about]
        time = HandTime()
        async with (
            ScriptedServer(in_turn(script, GOOD)) as server,
            endpoint(server.url, time) as model,
        ):
            detail = await failure(model, expected)
            assert len(server.requests) == 1
            assert (await ask(model)).text == "It is."
        assert words in detail
        assert detail.startswith(f"http://{HOST}:{server.port} ")
        assert time.slept == []

    async def test_an_endpoint_that_heeds_no_limit_is_hung_up_on(self) -> None:
        """A reply that no such number of tokens can take: reading on would spend on."""
        long = completion("x" * 100_000)
        async with ScriptedServer(reply(200, long)) as server, endpoint(server.url) as model:
            assert len((await ask(model)).text) == 100_000
            with pytest.raises(ModelFailed, match="answered with more than") as caught:
                await ask(model, max_tokens=100)
            assert caught.value.failure is ModelFailure.PROTOCOL

    @pytest.mark.parametrize("size", [1, 3, 1_000])
    async def test_an_answer_in_pieces_is_an_answer(self, size: int) -> None:
        text = "It is. " * 3_000
        async with (
            ScriptedServer(_in_pieces(completion(text), size)) as server,
            endpoint(server.url) as model,
        ):
            assert (await ask(model)).text == text

    async def test_the_smallest_pieces_leave_others_their_turn(self) -> None:
        pieces = 20_000
        took = 0

        async def others() -> None:
            nonlocal took
            while True:
                await asyncio.sleep(0)
                took += 1

        async with (
            ScriptedServer(_in_pieces(b" " * pieces, 1)) as server,
            endpoint(server.url) as model,
        ):
            task = asyncio.create_task(others())
            await failure(model, ModelFailure.PROTOCOL)
            task.cancel()
        assert took > pieces / 1_000

    @pytest.mark.parametrize("over", [0, 1])
    async def test_the_limit_is_a_limit(self, over: int) -> None:
        body = completion()
        async with (
            ScriptedServer(in_turn(_in_pieces(body, 7), reply(200, body))) as server,
            endpoint(server.url, max_reply_bytes=len(body) - over) as model,
        ):
            for _ in range(2):
                if over:
                    await failure(model, ModelFailure.PROTOCOL)
                else:
                    await ask(model)

    @pytest.mark.parametrize("stated", [True, False])
    @pytest.mark.parametrize("status", [200, 500])
    async def test_too_much_is_not_read_on(self, stated: bool, status: int) -> None:
        total, sent = 50_000_000, [0]

        async def script(request: Request, writer: asyncio.StreamWriter) -> None:
            if status == 200:
                return await flood(total, stated=stated, on_byte=sent.append)(request, writer)
            writer.write(head(status, {"Content-Length": str(total)}))
            while sent[-1] < total:
                writer.write(b"x" * 65_536)
                await writer.drain()
                sent.append(sent[-1] + 65_536)
            return None

        async with ScriptedServer(script) as server, endpoint(server.url) as model:
            expected = ModelFailure.PROTOCOL if status == 200 else ModelFailure.SERVER_ERROR
            await failure(model, expected)
            await server.hung_up.wait()
        assert sent[-1] < total / 2  # what the sockets' buffers took, and the megabyte read

    @pytest.mark.parametrize(
        "script",
        [hang(), _headers_only(), dribble()],
        ids=["silent", "headers", "a byte at a time"],
    )
    async def test_an_endpoint_that_never_ends_runs_out_of_time(self, script: Script) -> None:
        async with (
            ScriptedServer(in_turn(GOOD, script, GOOD)) as server,
            endpoint(server.url) as model,
        ):
            await ask(model)  # so that a slow connect is not what runs out of time
            detail = await failure(model, ModelFailure.TIMEOUT, timeout_s=0.05)
            assert "gave no whole answer in 0.05 s" in detail
            await server.hung_up.wait()  # the connection went with it
            assert len(server.requests) == 2  # never asked again: the tokens are spent
            assert (await ask(model)).text == "It is."

    async def test_a_request_has_a_limit_of_its_own(self) -> None:
        async with (
            ScriptedServer(in_turn(GOOD, hang())) as server,
            endpoint(server.url, request_timeout_s=0.05) as model,
        ):
            await ask(model)
            assert "in 0.05 s" in await failure(model, ModelFailure.TIMEOUT)

    async def test_no_time_left_is_no_request(self) -> None:
        async with ScriptedServer(GOOD) as server, endpoint(server.url) as model:
            for left in (0.0, -1.0):
                assert "no time" in await failure(model, ModelFailure.TIMEOUT, timeout_s=left)
        assert server.requests == []

    async def test_an_error_repeats_few_of_the_endpoints_words_and_no_key(self) -> None:
        said = f"key {KEY}\n\x1b[31m bearer {KEY} at https://me:hunter22@host/ sk-live-0123456789 "
        async with (
            ScriptedServer(refuse(400, error(said + "no\n" * 5_000))) as server,
            endpoint(server.url) as model,
        ):
            detail = await failure(model, ModelFailure.REJECTED)
        for secret in (KEY, "hunter22", "0123456789", "\x1b"):
            assert secret not in detail
        words = detail.partition("answered 400: ")[2]
        assert words.startswith("key *** ")
        assert len(words) == 300

    async def test_the_key_is_nowhere_in_an_exception(self) -> None:
        async with (
            ScriptedServer(garbage(f"HTTP/1.1 {KEY}\r\n\r\n".encode())) as server,
            endpoint(server.url) as model,
        ):
            with pytest.raises(ModelFailed) as caught:
                await ask(model)
        seen: BaseException | None = caught.value
        while seen is not None:
            assert KEY not in f"{seen} {seen!r}"
            seen = seen.__cause__ or (None if seen.__suppress_context__ else seen.__context__)

    def test_the_key_is_not_in_the_repr(self) -> None:
        model = ChatEndpoint("small", "https://host/v1", api_key=KEY)
        assert repr(model) == "ChatEndpoint('small' at https://host)"
