"""The endpoint speaks the API as a model's server does, and does as it is told."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from starlette.testclient import TestClient

from bench.fallback.answering import REFUSAL, Script
from bench.fallback.endpoint import FLOOD_BYTES, Endpoint, Mode

ASKED = [
    {"role": "system", "content": "Write code."},
    {"role": "user", "content": "# Question\nIs the belt slow?\n"},
]


@pytest.fixture
def client() -> Iterator[TestClient]:
    endpoint = Endpoint(Script({"Is the belt slow?": "x = 'belt'  # ✓"}))
    with TestClient(endpoint.application()) as client:
        yield client


def ask(client: TestClient, messages: Any = None, **more: Any) -> Any:
    return client.post(
        "/v1/chat/completions", json={"model": "script", "messages": messages or ASKED, **more}
    )


def test_a_completion_counts_its_tokens(client: TestClient) -> None:
    reply = ask(client).json()
    choice = reply["choices"][0]
    text = choice["message"]["content"]
    assert choice["finish_reason"] == "stop"
    assert "x = 'belt'" in text
    prompt = sum(len(message["content"].encode()) for message in ASKED) // 4
    assert reply["usage"] == {
        "prompt_tokens": prompt,
        "completion_tokens": len(text.encode()) // 4,
        "total_tokens": prompt + len(text.encode()) // 4,
    }
    counted = client.get("/control").json()
    assert (counted["requests"], counted["refused"]) == (1, 0)
    assert counted["prompt_tokens"] == prompt


@pytest.mark.parametrize("limit", ["max_tokens", "max_completion_tokens"])
def test_a_long_reply_is_cut_off(client: TestClient, limit: str) -> None:
    choice = ask(client, **{limit: 5}).json()["choices"][0]
    assert choice["finish_reason"] == "length"
    assert len(choice["message"]["content"].encode()) <= 20


def test_an_unknown_question_is_refused_and_counted(client: TestClient) -> None:
    asked = [{"role": "user", "content": "# Question\nIs the moon full?"}]
    message = ask(client, asked).json()["choices"][0]["message"]
    assert message == {"role": "assistant", "content": None, "refusal": REFUSAL}
    assert client.get("/control").json()["refused"] == 1


def test_modes_change_while_it_runs(client: TestClient) -> None:
    assert client.post("/control", json={"mode": "error"}).json()["mode"] == "error"
    assert ask(client).status_code == 500
    client.post("/control", json={"mode": "mistaken"})
    assert "run_tool(" not in ask(client).text
    client.post("/control", json={"mode": "script"})
    assert "run_tool(" in ask(client).text
    counted = client.get("/control").json()
    assert counted["by_mode"] == {"script": 1, "mistaken": 1, "hang": 0, "error": 1, "flood": 0}


def test_a_flood_is_long_and_longer(client: TestClient) -> None:
    client.post("/control", json={"mode": "flood"})
    sizes = sorted(len(ask(client).json()["choices"][0]["message"]["content"]) for _ in "ab")
    assert sizes == pytest.approx(sorted(FLOOD_BYTES), rel=0.06)


def test_what_is_no_request_is_refused(client: TestClient) -> None:
    assert client.post("/v1/chat/completions", content=b"{").status_code == 400
    assert ask(client, [{"role": "user"}]).status_code == 400
    assert client.post("/control", json={"mode": "sulk"}).status_code == 400
    assert client.post("/control", content=b"[]").status_code == 400
    assert client.get("/v1/models").json()["data"][0]["id"] == "script"
    assert client.get("/-/ready").text == "ready"
    assert client.get("/control").json()["mode"] == Mode.SCRIPT
