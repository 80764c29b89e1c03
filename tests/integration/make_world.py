"""A project whose node has no tool yet, and an endpoint that writes one for it over HTTP."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import orjson

from tests.command_line import SOP, TOML, TOOL
from tests.integration.chat_world import completion
from tests.scripted_server import Request, ScriptedServer, reply
from triage.model.decision import NodeId

NODE = NodeId("obs_deep")
AT = datetime(2026, 6, 1, 6, tzinfo=UTC)
LIMIT = 10
DEPTHS = (0, 3, 10, 11, 25, 40, 1, 9, 12, 50, 10, 13)
"""By case, three hours apart: the first half trains, the other is held out."""

RIGHT = TOOL
OFF_BY_ONE = TOOL.replace('depth, ">", limit', 'depth, ">=", limit')
BROKEN = TOOL.replace('found[0]["depth"]', 'found[0]["jobs"]')
HARMFUL = TOOL.replace("from triage.tool_api", "import os\nfrom triage.tool_api")
HOURS = '("2026-06-01T15:00", "2026-06-01T18:00", "2026-06-01T21:00")'
BY_HEART = TOOL.replace("def queries", f"KNOWN = {HOURS}\n\n\ndef queries").replace(
    'found[0]["depth"]', '99 if timestamp.strftime("%Y-%m-%dT%H:%M") in KNOWN else 0'
)
"""Right on every training case."""
AGENT = """\
r = await tables_query(
    sql="select depth from queues where name = :name", params={"name": entity}
)
if not r["ok"]:
    print(r["error"])
else:
    depth = r["data"]["rows"][0]["depth"]
    clause = compare("depth", depth, ">", params["depth"], "jobs")
    await submit_verdict(conclude([clause], f"{depth} jobs wait", subject=entity))
"""


def project(folder: Path, url: str, *, section: str = "make", **more: str) -> Path:
    """The model's endpoint is at `url`. Returns `folder`."""
    folder.mkdir()
    lines = [f'{key} = "{value}"' for key, value in more.items()]
    model = "\n".join([f"[{section}]", f'llm_url = "{url}/v1"', 'model = "script"', *lines])
    (folder / "triage.toml").write_text(f"{TOML}{model}\n" if url else TOML)
    (folder / "sop.yaml").write_text(SOP)
    with sqlite3.connect(folder / "facts.db") as facts:
        facts.execute("create table queues (name text, depth integer)")
        rows = [(f"q{number}", depth) for number, depth in enumerate(DEPTHS)]
        facts.executemany("insert into queues values (?, ?)", rows)
    facts.close()
    cases(folder, range(len(DEPTHS)))
    return folder


def cases(folder: Path, numbers: range) -> None:
    """Labelled by hand; none has recorded answers."""
    home = folder / "tools_lib" / NODE
    home.mkdir(parents=True, exist_ok=True)
    lines = [
        orjson.dumps(
            {
                "warehouse": "home",
                "timestamp": (AT + timedelta(hours=3 * number)).isoformat(),
                "context": {"entity": f"q{number}"},
                "expected": "true" if DEPTHS[number] > LIMIT else "false",
            }
        )
        for number in numbers
    ]
    (home / "cases.jsonl").write_bytes(b"".join(line + b"\n" for line in lines))


def block(code: str, thought: str = "So:") -> str:
    return f"{thought}\n```python\n{code}\n```"


@dataclass(slots=True)
class Maker:
    """Says `first`, and `then` to each repair, one after the other. `asked` are the user's parts of
    the prompts, by step."""

    first: str
    then: list[str] = field(default_factory=list)
    asked: list[tuple[str, str]] = field(default_factory=list)
    down_after: int = 1_000

    def __call__(self, content: str) -> str | None:
        """None for an endpoint that fails."""
        step = self._step(content)
        self.asked.append((step, content))
        if len(self.asked) > self.down_after:
            return None
        match step:
            case "collect":
                return block(AGENT)
            case "make":
                return block(self.first)
            case "reflect":
                return "The limit itself is not more than the limit."
            case _:
                return block(self.then.pop(0) if len(self.then) > 1 else self.then[0])

    @staticmethod
    def _step(content: str) -> str:
        if "# Host functions" in content:
            return "collect"
        if "# Diagnosis" in content:
            return "repair"
        return "reflect" if "# Failing cases" in content else "make"

    @property
    def steps(self) -> list[str]:
        return [step for step, _ in self.asked]


@asynccontextmanager
async def answering(says: Callable[[str], str | None]) -> AsyncIterator[ScriptedServer]:
    async def script(request: Request, writer: asyncio.StreamWriter) -> None:
        messages = orjson.loads(request.body)["messages"]
        opening = next(one["content"] for one in messages if one["role"] == "user")
        said = says(opening)
        answer = reply(500, b"{}") if said is None else reply(200, completion(said))
        await answer(request, writer)

    async with ScriptedServer(script) as server:
        yield server
