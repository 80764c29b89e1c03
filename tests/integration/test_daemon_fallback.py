"""A daemon whose tool raises, and a model behind real HTTP that answers in its place."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import orjson

from tests.daemon import Project, good_tool, native, post, served, silent_tool
from tests.daemon_neighbours import Client, MetricsScript
from tests.integration.chat_world import completion, error
from tests.scripted_server import ScriptedServer, hang, reply

CODE = """
Look at the depth.
```python
r = await metrics_samples(
    selector=selector("depth", entity=entity), start=ago(300), end=fired_at
)
values = [v for s in read_series(r["data"]) for v in s.values]
await submit(
    verdict="true" if values[-1] > 10 else "false",
    explanation="looked at the depth",
    clauses=[{"name": "depth", "observed": values[-1], "op": ">", "threshold": 10, "unit": "",
              "holds": values[-1] > 10}],
)
```
"""


def project(
    folder: Path, metrics: ScriptedServer, model: ScriptedServer, **fallback: Any
) -> Project:
    """Node `broken` has a tool that raises, `good` one that works."""
    keys = {"llm_url": f"{model.url}/v1", "model": "small", "timeout_s": 30.0, **fallback}
    section = "\n".join(f"{key} = {json.dumps(value)}" for key, value in keys.items())
    return Project(
        folder=folder / "project",
        nodes={"broken": silent_tool("raise ValueError('no')"), "good": good_tool()},
        metrics_url=metrics.url,
        more=f"[fallback]\n{section}\n",
    ).write()


async def metric(port: int, name: str) -> float:
    async with Client(port) as client:
        text = (await client.request("GET", "/metrics")).body.decode()
    lines = [line for line in text.splitlines() if line.startswith(f"{name} ")]
    assert lines, text
    return float(lines[0].split()[1])


async def test_the_model_answers_and_everything_is_on_record(tmp_path: Path) -> None:
    async with (
        ScriptedServer(MetricsScript(value=20.0)) as metrics,
        ScriptedServer(reply(200, completion(CODE))) as model,
        served(project(tmp_path, metrics, model)) as daemon,
    ):
        (alert_id,) = await post(daemon, native("one", "al_broken"))
        decision = await daemon.decision(alert_id)
        (node,) = decision["nodes"]
        assert (node["verdict"], node["answered_by"]) == ("true", "fallback"), node
        assert (decision["outcome"], decision["degraded"]) == ("actions", False)
        assert node["tool_failure"]["reason"] == "tool_raised"
        assert node["clauses"][0]["observed"] == 20.0
        (turn,) = node["fallback"]["turns"]
        assert turn["thought"] == "Look at the depth."
        (call,) = turn["calls"]
        assert (call["function"], call["ok"]) == ("metrics_samples", True)
        (asked,) = (one for one in node["asked"] if one["query"]["tool"] == "samples")
        assert asked["answer_sha256"] == call["answer_sha256"]
        evidence = await daemon.ask(f"/api/v1/evidence/{call['answer_sha256']}")
        assert "series" in json.dumps(evidence)

        prompt = orjson.loads(model.requests[0].body)["messages"]
        assert "Is broken so?" in prompt[-1]["content"]
        gaps = (await daemon.ask("/api/v1/gaps"))["gaps"]
        assert [(gap["node"], gap["reason"], gap["count"]) for gap in gaps] == [
            ("broken", "tool_raised", 1)
        ]
        assert (await daemon.ask("/-/ready"))["fallback"] == "ok"
        assert await metric(daemon.port, "triage_fallback_up") == 1
        assert await metric(daemon.port, "triage_gaps_open") == 1
        assert (await daemon.settled())["decided"] == 1


async def test_an_endpoint_that_keeps_failing_is_left_alone_and_escalates(tmp_path: Path) -> None:
    async with (
        ScriptedServer(MetricsScript()) as metrics,
        ScriptedServer(reply(500, error("no"))) as model,
        served(project(tmp_path, metrics, model, breaker_failures=2)) as daemon,
    ):
        ids = [(await post(daemon, native(f"a{n}", "al_broken")))[0] for n in range(4)]
        for alert_id in ids:
            decision = await daemon.decision(alert_id)
            (node,) = decision["nodes"]
            assert node["failure"]["reason"] == "fallback_model"
            assert decision["outcome"] == "escalate"
        assert "in a row" in (await daemon.ask("/-/ready"))["fallback"]
        assert (await daemon.ask("/-/ready"))["ready"]
        assert await metric(daemon.port, "triage_fallback_breaker_open") == 1


async def test_a_hanging_endpoint_costs_the_others_nothing(tmp_path: Path) -> None:
    async with (
        ScriptedServer(MetricsScript()) as metrics,
        ScriptedServer(hang()) as model,
        served(project(tmp_path, metrics, model)) as daemon,
    ):
        (held,) = await post(daemon, native("held", "al_broken"))
        await model.arrived(1)
        for n in range(20):
            (alert_id,) = await post(daemon, native(f"b{n}", "al_good"))
            assert (await daemon.decision(alert_id))["outcome"] == "actions"
        assert "outcome" not in await daemon.ask(f"/api/v1/decisions/{held}")


async def test_without_a_sandbox_the_fallback_is_off_and_says_so(
    tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setenv("MONTY_BIN", str(tmp_path / "no-such-program"))
    async with (
        ScriptedServer(MetricsScript()) as metrics,
        ScriptedServer(reply(200, completion(CODE))) as model,
        served(project(tmp_path, metrics, model)) as daemon,
    ):
        (alert_id,) = await post(daemon, native("one", "al_broken"))
        decision = await daemon.decision(alert_id)
        assert decision["nodes"][0]["failure"]["reason"] == "tool_raised"
        ready = await daemon.ask("/-/ready")
        assert ready["ready"]
        assert ready["fallback"].startswith("off: ")
        assert await metric(daemon.port, "triage_fallback_up") == 0
        assert not model.requests
        assert len((await daemon.ask("/api/v1/gaps"))["gaps"]) == 1
