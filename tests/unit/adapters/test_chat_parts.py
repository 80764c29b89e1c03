"""The parts of a chat endpoint that do no I/O."""

from __future__ import annotations

import string
from datetime import UTC, datetime
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from triage.adapters.chat.address import address
from triage.adapters.chat.answers import MAX_TOKENS, read_completion
from triage.adapters.chat.body import Bodies, size
from triage.adapters.chat.breaker import Breaker
from triage.adapters.chat.refusals import LONGEST_WAIT_S, read_error, refused, retry_after
from triage.adapters.chat.scrub import LONGEST, Scrub
from triage.adapters.chat.setback import Setback
from triage.adapters.chat.wire import Reply
from triage.errors import ConfigError, ModelFailure
from triage.ports import ChatMessage, Completion

NOW = datetime(2030, 5, 6, 7, 8, 9, tzinfo=UTC)
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats(allow_nan=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


def _reply(status: int, body: bytes = b"", retry: str = "", date: str = "") -> Reply:
    return Reply(
        status=status,
        succeeded=200 <= status < 300,
        retry_after=retry,
        date=date,
        body=body,
    )


class TestAddress:
    @pytest.mark.parametrize(
        ("url", "target"),
        [
            ("http://host/v1", "http://host/v1/chat/completions"),
            ("http://host/v1/", "http://host/v1/chat/completions"),
            ("http://host", "http://host/chat/completions"),
            ("https://host:8443/a/b%20c", "https://host:8443/a/b%20c/chat/completions"),
            ("http://host/v1/chat/completions", "http://host/v1/chat/completions"),
            ("http://[::1]:8177/v1", "http://[::1]:8177/v1/chat/completions"),
        ],
    )
    def test_the_base_gets_its_path(self, url: str, target: str) -> None:
        assert str(address(url, "").url) == target

    def test_user_information_leaves_the_url(self) -> None:
        found = address("https://us%40er:p%3Ass@host:81/v1", "")
        assert str(found.url) == "https://host:81/v1/chat/completions"
        assert found.shown == "https://host:81"
        assert {"us%40er:p%3Ass", "p:ss", "p%3Ass"} <= set(found.secrets)
        assert not any(secret in repr(found) for secret in found.secrets)
        assert dict(found.headers)["authorization"] == "Basic dXNAZXI6cDpzcw=="

    @pytest.mark.parametrize(
        "url",
        [
            "host:8177",
            "ftp://hunter22@host/",
            "http://",
            "http://me:hunter22@",
            "http://me:hunter22#@host/",
            "http://me:hunter22@host:port",
            "http://me:hunter22@host:99999",
            "http://me:hunter22@host/?key=a",
            "http://me:hunter22@host/#part",
            "http://me:hunter22@ho st/",
            "http://me:hunter22@a..b/",
            "http://me:hunter22@host/\n",
            "http://me:hunter22@hôst/ä",
        ],
    )
    def test_what_is_no_base_is_refused_without_repeating_it(self, url: str) -> None:
        with pytest.raises(ConfigError, match="llm_url") as caught:
            address(url, "")
        assert "hunter" not in str(caught.value)
        assert caught.value.__cause__ is None

    @pytest.mark.parametrize("key", ["hunter22\n", "hunter 22", "hünter22", "hunter22\x00"])
    def test_what_is_no_key_is_refused_without_repeating_it(self, key: str) -> None:
        with pytest.raises(ConfigError, match="secret's file") as caught:
            address("http://host/v1", key)
        assert "nter" not in str(caught.value)

    def test_two_ways_to_prove_oneself_are_one_too_many(self) -> None:
        with pytest.raises(ConfigError, match="leave out"):
            address("http://me:hunter22@host/v1", "key")


class TestScrub:
    @given(text=st.text(), secret=st.text(string.ascii_letters + '0123456789-"\\/', min_size=4))
    def test_one_short_line_without_the_secret(self, text: str, secret: str) -> None:
        for said in (text + secret + text, f"{text} {secret}", orjson.dumps(secret).decode()):
            line = Scrub([secret]).line(said)
            assert len(line) <= LONGEST
            assert line.isprintable()
            assert secret not in line.replace("***", "\n")

    @given(before=st.integers(0, 2 * LONGEST))
    def test_the_cut_leaves_no_part_of_a_secret(self, before: int) -> None:
        line = Scrub(["hunter22"]).line("." * before + "hunter22" + "." * LONGEST)
        assert "h" not in line

    @pytest.mark.parametrize(
        ("said", "shown"),
        [
            ("at https://me:pw@host/x", "at https://***host/x"),
            ("Authorization: Bearer abcdefgh01234567", "Authorization: ***"),
            ("Bearer authentication is needed", "Bearer authentication is needed"),
            ("key sk-proj-01234567 is off", "key *** is off"),
            ("risk-averse desk-bound", "risk-averse desk-bound"),
            ("a\r\n\tb\x1b[0m\u2028c", "a b [0m c"),
        ],
    )
    def test_what_looks_like_a_secret_is_masked(self, said: str, shown: str) -> None:
        assert Scrub([]).line(said) == shown

    def test_a_stand_in_for_a_key_masks_nothing(self) -> None:
        assert Scrub(["x"]).line("extra text") == "extra text"

    def test_it_does_not_show_what_it_hides(self) -> None:
        assert "hunter" not in repr(Scrub(["hunter22"]))


class TestRefusals:
    @pytest.mark.parametrize(
        ("body", "text"),
        [
            (b'{"error":{"message":"m","code":7}}', "m"),
            (b'{"error":"e"}', "e"),
            (b'{"detail":"d"}', "d"),
            (b'{"detail":[{"msg":"d"}]}', '[{"msg":"d"}]'),
            (b'{"message":"m"}', "m"),
            (b'{"a":1}', '{"a":1}'),
            (b"[1]", "[1]"),
            (b"plain", "plain"),
            (b"\xff", "\ufffd"),
            (b"", ""),
        ],
    )
    def test_an_error_in_any_shape(self, body: bytes, text: str) -> None:
        assert read_error(body).text == text

    @given(status=st.integers(300, 599) | st.integers(100, 199), document=JSON, retry=st.text())
    def test_any_refusal_can_be_told(self, status: int, document: Any, retry: str) -> None:
        body = orjson.dumps(document, option=orjson.OPT_NON_STR_KEYS)
        setback = refused(_reply(status, body, retry), lambda: NOW)
        assert isinstance(setback.said, str)
        assert setback.repeat == (status in {429, 502, 503, 529})
        assert setback.wait_s is None or 0 <= setback.wait_s <= LONGEST_WAIT_S

    @given(
        value=st.text() | st.from_regex(r"[A-Z][a-z]{2}, [0-9]+ [A-Z][a-z]{2} [0-9]+ [0-9:]+ .*")
    )
    def test_any_header_can_be_read(self, value: str) -> None:
        seconds = retry_after(_reply(429, retry=value, date=value), lambda: NOW)
        assert seconds is None or 0 <= seconds <= LONGEST_WAIT_S

    @given(seconds=st.integers(0, 10**9 - 1))
    def test_seconds(self, seconds: int) -> None:
        assert retry_after(_reply(429, retry=f" {seconds}"), lambda: NOW) == min(
            seconds, LONGEST_WAIT_S
        )


class TestAnswers:
    @given(document=JSON)
    def test_any_json_ends_well(self, document: Any) -> None:
        for whole in (
            document,
            {"choices": document},
            {"choices": [document], "error": document},
            {"choices": [{"message": document, "finish_reason": document}]},
            {
                "choices": [
                    {
                        "message": {"content": document, "refusal": document},
                        "finish_reason": document,
                    }
                ],
                "usage": {"prompt_tokens": document, "completion_tokens": document},
            },
        ):
            outcome = read_completion(orjson.dumps(whole), prompt_bytes=9)
            if isinstance(outcome, Setback):
                assert outcome.failure is ModelFailure.PROTOCOL
                continue
            assert 0 <= outcome.completion_tokens <= MAX_TOKENS
            assert 0 < outcome.prompt_tokens <= MAX_TOKENS
            assert 0 < len(outcome.finish) <= 40
            assert outcome.finish.isprintable()

    @given(st.binary())
    def test_any_bytes_end_well(self, body: bytes) -> None:
        assert isinstance(read_completion(body, prompt_bytes=1), Setback)

    @pytest.mark.parametrize(
        ("counted", "tokens"),
        [(7, 7), (0, 3), (-1, 3), (True, 3), (1.5, 3), ("7", 3), (None, 3), (MAX_TOKENS + 1, 3)],
    )
    def test_what_is_no_count_is_estimated(self, counted: object, tokens: int) -> None:
        body = orjson.dumps(
            {
                "choices": [{"message": {"content": "x" * 9}}],
                "usage": {"prompt_tokens": counted, "completion_tokens": counted},
            }
        )
        assert read_completion(body, prompt_bytes=9) == Completion("x" * 9, "stop", tokens, tokens)


class TestBodies:
    def test_half_a_surrogate_pair_can_be_sent(self) -> None:
        messages = [ChatMessage("user", "a\ud800b")]
        form = orjson.loads(Bodies("m", 0.0).encode(messages, 5))
        assert form["messages"] == [{"role": "user", "content": "a?b"}]
        assert size(messages) == 3

    def test_only_what_can_be_done_without_is_left_out(self) -> None:
        bodies = Bodies("m", 0.5)
        before = bodies.encode([], 5)
        for parameter in ("messages", "model", "stream", "max_completion_tokens", ""):
            bodies.do_without(parameter)
        assert bodies.encode([], 5) == before


class TestBreaker:
    @given(st.lists(st.sampled_from(["fail", "succeed", "wait", "abandon"]), max_size=60))
    def test_it_is_open_exactly_after_failures_in_a_row(self, steps: list[str]) -> None:
        now = 0.0
        breaker = Breaker(failures=3, reset_s=10.0, monotonic=lambda: now)
        in_a_row, opened_at = 0, 0.0
        for step in steps:
            may_go = in_a_row < 3 or now >= opened_at + 10.0
            assert (breaker.refusal == "") == may_go
            if step == "wait":
                now += 5.0
            elif may_go:
                with breaker.call():
                    if in_a_row >= 3:
                        assert "just being asked again" in breaker.refusal
                    if step == "fail":
                        breaker.failed("no")
                        in_a_row, opened_at = in_a_row + 1, now
                    elif step == "succeed":
                        breaker.succeeded()
                        in_a_row = 0
