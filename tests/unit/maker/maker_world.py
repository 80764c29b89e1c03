"""A node, its cases, a model that says what it is told to, and a trial without a sandbox.

The question is whether a tank holds more than five: a case's entity says how much it holds, and a
candidate's line `LIMIT = …` what it compares with.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.unit.fallback.agent_world import ScriptedModel, block, never
from tests.unit.library import building
from triage.errors import SandboxFailed
from triage.fallback.masking import Mask
from triage.maker.loop import Maker, MakeRequest
from triage.maker.model import CaseTrace, Gate, Score, SeenAnswer, SeenField
from triage.maker.prompt import MakerPrompts
from triage.maker.task import SourceKind, Task, task_of
from triage.maker.transcript import ModelLimits
from triage.model.canonical import canonical_json
from triage.model.case import LabelledCase, case_id
from triage.model.decision import NodeId
from triage.model.query import Answer, Query, Samples
from triage.model.site import Site
from triage.model.trace import Turn
from triage.model.verdict import Clause
from triage.sop.procedure import Param, Sop
from triage.trial.model import FAILED, Answers, Candidate, Setting, Told, Tried

AT = datetime(2026, 3, 1, 12, tzinfo=UTC)
NODE = NodeId("obs_tank_full")
TEXT = "Does the tank hold more than five? Count what came in over the night as well."
NORTH = Site(name="north", zone="Europe/Berlin", units={"level": "litres"}, facts={"tanks": 9})
MASK = Mask((), ["hunter2-hunter2"])
PROMPTS = MakerPrompts.load()
LIMIT = 5

SOURCE = '''"""Whether the tank holds more than LIMIT."""

from datetime import datetime

from triage.tool_api import Context, Query, Verdict, compare, conclude, samples, selector

LIMIT = {limit}


def queries(warehouse: str, timestamp: datetime, context: Context) -> list[Query]:
    return [samples("metrics", selector("level", site=warehouse), timestamp, 300)]


def evaluate(warehouse: str, timestamp: datetime, context: Context) -> Verdict:
    return conclude([compare("level", float(context.entity), ">", LIMIT)], "so")
'''


def source(limit: int | str) -> str:
    return SOURCE.format(limit=limit)


def tool(limit: int | str) -> str:
    """A reply."""
    return block(source(limit))


def sop(text: str = TEXT) -> Sop:
    """Every way to the node passes `obs_first`; `obs_aside` is on one of two."""
    made = building.sop(
        building.node("obs_first", {"true": [NODE], "false": ["obs_aside"]}),
        building.node("obs_aside", {"true": [NODE]}),
        building.node(NODE, {"true": ["obs_after"]}, text),
        building.node("obs_after"),
    )
    params = {
        "tank_limit": Param(value=5.0, unit="litres", text="What a tank may hold."),
        "belt_speed": Param(value=2, unit="m/s"),
    }
    return replace(made, params=params)


def task(text: str = TEXT) -> Task:
    return task_of(sop(text), NODE, kinds={"metrics": SourceKind.SERIES}, sites=[NORTH])


def case(holds: float, number: int = 0, **more: Any) -> LabelledCase:
    at = AT + timedelta(hours=number)
    made = LabelledCase(
        case_id=case_id(NODE, "north", at, f"{holds:g}", {}),
        node=NODE,
        warehouse="north",
        timestamp=at,
        expected="true" if holds > LIMIT else "false",
        entity=f"{holds:g}",
    )
    return made._replace(**more)


def cases(*holds: float, after: int = 0) -> list[LabelledCase]:
    return [case(one, after + index) for index, one in enumerate(holds)]


TRAIN = cases(1, 3, 5, 6, 8, 9)
HELDOUT = cases(2, 7, after=100)


class NoAnswers:
    async def answer(self, query: Query, *, timeout_s: float) -> Answer:
        raise AssertionError("nothing is asked here")


def setting(case: LabelledCase) -> tuple[Setting, Answers]:
    return (
        Setting(
            site=NORTH,
            params={},
            timestamp=case.timestamp,
            entity=case.entity,
            labels=case.labels,
            parents=case.parents,
        ),
        NoAnswers(),
    )


def told(size: int = 10) -> Told:
    query = Samples("metrics", "level", AT - timedelta(seconds=300), AT)
    return Told(query, canonical_json({"rows": [{"level": "x" * size}]}))


def by_limit(candidate: Candidate, setting: Setting) -> Tried:
    """What the code would say, without running it."""
    limit = re.search(r"^LIMIT = (.+)$", candidate.text, re.MULTILINE)
    assert limit is not None
    if limit[1] == "down":
        return Tried(FAILED, failure="source_connect", detail="no route to metrics")
    if not limit[1].isdigit():
        return Tried(FAILED, failure="tool_raised", detail=f"line 7: NameError: {limit[1]}")
    holds = float(setting.entity) > int(limit[1])
    clause = Clause("level over night", float(setting.entity), ">", int(limit[1]), "", holds)
    return Tried("true" if holds else "false", clauses=(clause,), asked=(told(),), elapsed_ms=2.0)


class FakeTrials:
    """`ran` are the candidates with the cases they were run on, by entity."""

    def __init__(
        self, says: Callable[[Candidate, Setting], Tried | SandboxFailed] = by_limit
    ) -> None:
        self._says = says
        self.ran: list[tuple[str, tuple[str, ...]]] = []

    async def run(
        self, candidate: Candidate, settings: Sequence[tuple[Setting, Answers]]
    ) -> list[Tried]:
        self.ran.append((candidate.text, tuple(one.entity for one, _ in settings)))
        tries = []
        for one, _ in settings:
            said = self._says(candidate, one)
            if isinstance(said, SandboxFailed):
                raise said
            tries.append(said)
        return tries


class FakeGates:
    def __init__(self, *refused: str) -> None:
        self._refused = refused
        self.asked: list[tuple[Candidate, Score, Score]] = []

    async def check(self, candidate: Candidate, train: Score, heldout: Score) -> list[Gate]:
        self.asked.append((candidate, train, heldout))
        names = ("policy", "budget", "heldout")
        return [Gate(name, name not in self._refused, "looked at") for name in names]


class FakeCollector:
    def __init__(self, *traces: CaseTrace) -> None:
        self._traces = traces
        self.given: list[str] = []

    async def collect(self, node: NodeId, cases: Sequence[LabelledCase]) -> list[CaseTrace]:
        self.given = [case.case_id for case in cases]
        return list(self._traces)


class HangingTrials:
    async def run(
        self, candidate: Candidate, settings: Sequence[tuple[Setting, Answers]]
    ) -> list[Tried]:
        return await never()


ANSWER = SeenAnswer(
    query={"kind": "samples", "source": "metrics", "selector": "level", "window_s": 300.0},
    kind="series",
    size=2,
    fields=(
        SeenField("value", ("number",), 20, nulls=1, low=0.5, high=9999.0, examples=("0.5",)),
        SeenField("tank", ("text",), 2, examples=('"TK-1"', '"tank 2"')),
    ),
    step_s=30.0,
    gaps=1,
)


def trace(origin: str = "c0ffee", **more: Any) -> CaseTrace:
    made = CaseTrace(
        origin=origin,
        node=NODE,
        site="north",
        units={"level": "litres"},
        entity="7",
        timestamp=AT.isoformat(),
        expected="true",
        verdict="true",
        right=True,
        turns=(
            Turn("I look first.", "print(1)", prompt_tokens=100, completion_tokens=10),
            Turn("So.", "await submit()", prompt_tokens=120, completion_tokens=12),
        ),
        answers=(ANSWER,),
        tokens=242,
    )
    return made._replace(**more)


def request(**more: Any) -> MakeRequest:
    made = MakeRequest(task=task(), train=TRAIN, heldout=HELDOUT)
    return replace(made, **more)


def maker(model: ScriptedModel, **more: Any) -> Maker:
    parts: dict[str, Any] = {
        "model": model,
        "trials": FakeTrials(),
        "settings": setting,
        "seen": lambda *_: ANSWER,
        "prompts": PROMPTS,
        "mask": MASK,
        "limits": ModelLimits(),
        "monotonic": iter(range(10_000)).__next__,
        "gates": FakeGates(),
    }
    return Maker(**{**parts, **more})


def said(model: ScriptedModel) -> list[str]:
    """The user's part of every prompt that the model was sent."""
    return [request.messages[1].content for request in model.asked]


def step(prompt: str) -> str:
    headings = {line for line in prompt.split("\n") if line.startswith("# ")}
    if "# Diagnosis" in headings:
        return "repair"
    return "reflect" if "# Failing cases" in headings else "make"
