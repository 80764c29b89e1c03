"""The opening: what stands in it, and how large it is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from bench.world.catalogue import PREFIX, SERIES, TABLES
from tests.unit.dock_tools.dock_world import NOW, World, profile_of, sop
from tests.unit.fallback.asked import (
    ALERT,
    FACES,
    MASK,
    FakeCalls,
    asked,
    down,
    metrics,
    opened,
    request,
    tool,
)
from triage.adapters.mcp.face_catalogue import metrics_document, tables_document
from triage.evaluation.question import question
from triage.fallback.examples import Example, builtin_examples
from triage.fallback.masking import Mask
from triage.fallback.prompt import Prompt
from triage.fallback.template import fenced
from triage.model.catalogue import Catalogue, Column, Metric
from triage.model.decision import NodeId
from triage.model.query import Call
from triage.model.question import Asker
from triage.model.verdict import Truth, Verdict
from triage.ports import FallbackRequest, SourceTool

FOLDER = Path(__file__).parents[3] / "triage/fallback/prompts"


async def said(given: FallbackRequest, *examples: Example, mask: Mask = MASK) -> str:
    tools = await opened(given.calls, given.question)
    rules, task = Prompt.load().opening(given, tools, examples, mask=mask)
    assert (rules.role, task.role) == ("system", "user")
    assert "{{" not in task.content
    return task.content


async def test_what_stands_in_it() -> None:
    verdict = Verdict(Truth.TRUE, explanation="it leaks", subject="TK-7")
    before = (
        Asker(NodeId("obs_leak"), "Is there a leak?", "true", verdict),
        Asker(NodeId("obs_pump"), "Does it pump?", "failed", None),
    )
    text = await said(request(metrics(), asked(before=before)))
    for part in (
        'site = "north"\n',
        'fired_at = "2026-11-18T15:07:00+00:00"',
        'entity = "TK-7"',
        'labels = {"alertname": "TankLow"}',
        'facts = {"tanks": 9}',
        'units = {"level": "percent"}',
        'zone = "Europe/Berlin"',
        "tank_low_pct = 12.5 percent",
        "pump_bar=3",
        "async def metrics_samples(*, selector: str, start: str, end: str) -> Envelope",
        'Asked before: Is there a leak? `parents["obs_leak"]` is "true".',
        'Asked before: Does it pump? `parents["obs_pump"]` is "failed".',
        "~~~\nobs_leak: subject TK-7; it leaks\n~~~",
        "If true: Order more.",
        "# Question\n\nIs the tank nearly empty?",
        "an observation",
    ):
        assert part in text
    assert "obs_tank_low" not in text  # a question is known by what it says
    assert "ANNOTATED" not in text


async def test_the_first_question_of_an_alert() -> None:
    assert "It is the first question of the alert." in await said(request(metrics()))


async def test_a_source_that_is_down_is_told_of() -> None:
    text = await said(request(FakeCalls({"metrics": down("no route to 10.0.0.1")})))
    assert "Source metrics cannot be reached:\n~~~\nno route to 10.0.0.1\n~~~" in text


async def test_what_is_hidden_stays_hidden() -> None:
    alert = replace(ALERT, labels={"owner": "jo@example.com", "key": "hunter2!", "asset": "TK-7"})
    hostile = replace(FACES["samples"], description="ask jo@example.com for hunter2!")
    calls = FakeCalls({"metrics": [hostile]})
    text = await said(request(calls, alert=alert), mask=Mask((), ["hunter2!"]))
    assert 'labels = {"owner": "[person]", "key": "[secret]", "asset": "TK-7"}' in text
    assert "ask [person] for [secret]" in text


async def test_worked_examples_call_the_nodes_own_functions() -> None:
    text = await said(request(metrics()), *builtin_examples())
    assert text.startswith("# Example 1\n")
    assert "# Example 3" in text
    assert "# Example 4" not in text
    assert "await metrics_samples(" in text
    assert "await metrics_aggregate(" in text
    assert "@samples@" not in text


async def test_examples_stand_before_the_question() -> None:
    """What is asked is the last heading: the model reads it last."""
    text = await said(request(metrics()), Example(question="Was it?", thought="Yes.", code="x = 1"))
    headings = [line for line in text.split("\n") if line.startswith("# ")]
    assert headings == [
        "# Example 1",
        "# Alert and site",
        "# Params",
        "# Host functions",
        "# Where the question stands",
        "# Question",
    ]


def test_inputs_of_the_sandbox() -> None:
    verdict = Verdict(Truth.FALSE, subject="TK-7")
    before = (
        Asker(NodeId("obs_leak"), "Is there a leak?", "false", verdict),
        Asker(NodeId("obs_pump"), "Does it pump?", "failed", None),
    )
    inputs = Prompt.load().inputs(request(metrics(), asked(before=before)))
    offsets = inputs.pop("zone_offsets")
    assert inputs == {
        "site": "north",
        "fired_at": "2026-11-18T15:07:00+00:00",
        "entity": "TK-7",
        "labels": {"alertname": "TankLow"},
        "params": {"tank_low_pct": 12.5, "pump_bar": 3},
        "facts": {"tanks": 9},
        "units": {"level": "percent"},
        "zone": "Europe/Berlin",
        "parents": {"obs_leak": "false", "obs_pump": "failed"},
        "parent_verdicts": {
            "obs_leak": {"value": "false", "explanation": "", "subject": "TK-7", "clauses": []}
        },
    }
    assert [offset for _, offset in offsets] == [7200, 3600, 7200, 3600, 7200, 3600]


def test_version_and_hash_are_of_the_files() -> None:
    files = {
        path.relative_to(FOLDER).as_posix(): path.read_text(encoding="utf-8")
        for path in FOLDER.rglob("*")
        if path.is_file()
    }
    loaded, made = Prompt.load(), Prompt(files)
    assert loaded.version == made.version == "1"
    assert loaded.sha256 == made.sha256
    assert len(loaded.sha256) == 64
    for name, text in files.items():
        if name != "rules.md":
            assert Prompt({**files, name: text + "\n"}).sha256 != loaded.sha256, name
    with pytest.raises(ValueError, match="version"):
        Prompt({**files, "rules.md": "No version."})


def test_phrases_are_filled_once() -> None:
    phrases = yaml.safe_load((FOLDER / "phrases.yaml").read_text(encoding="utf-8"))
    prompt = Prompt.load()
    assert phrases
    for name, text in phrases.items():
        assert isinstance(text, str), name
    assert prompt.phrase("cut", count="{count} {{count}}") == phrases["cut"].replace(
        "{count}", "{count} {{count}}"
    )


@pytest.mark.parametrize("data", ["", "x", "~", "~~~", "a\n~~~~~\nb", "~" * 1000])
def test_a_fence_that_the_data_cannot_close(data: str) -> None:
    first, *inside, last = fenced(data).split("\n")
    assert first == last == "~" * len(first)
    assert "\n".join(inside) == data
    assert first not in data


# Of a window of 8,192 tokens, at the three bytes each that are assumed, a third is left.
MAX_OPENING = 3 * 4_800
EQUIPMENT = [
    replace(
        tool(name, {part: {"type": "string"} for part in ("site", "asset", "at")}),
        description=f"What the controllers say of {name}, as of `at`. " * 3,
    )
    for name in [
        "safety_inputs",
        "fault_code",
        "resets",
        "carriers",
        "doors",
        "eye_margin",
        "routes",
    ]
]
SHELVES: dict[str, list[SourceTool]] = {
    "metrics": [FACES["samples"], FACES["aggregate"], FACES["metrics"]],
    "warehouse": [FACES["query"], FACES["tables"]],
    "equipment": EQUIPMENT,
}
DOCK = Catalogue(
    metrics={PREFIX + name.partition(":")[0]: Metric(labels=("asset", "site")) for name in SERIES},
    tables={
        table.name: tuple(Column(*column) for column in table.columns.items())
        for table in TABLES.values()
    },
)


def dock_names(call: Call) -> object:
    document = metrics_document if call.tool == "metrics" else tables_document
    return document(DOCK, "", 100)


@pytest.mark.parametrize(
    "node", ["obs_chutes_full", "rc_photo_eye_dirty", "rc_trailer_absent", "con_induct_headroom"]
)
async def test_the_opening_leaves_room_in_a_small_window(node: str) -> None:
    world = World(entity="CH-007")
    profile = profile_of(world)
    given = question(sop(), sop().nodes[NodeId(node)], profile, {})
    alert = replace(ALERT, site="FC1", entity="CH-007", fired_at=NOW)
    made = request(FakeCalls(SHELVES, dock_names), given, alert=alert, site=profile.site)
    tools = await opened(made.calls, given)
    messages = Prompt.load().opening(made, tools, builtin_examples(), mask=MASK)
    text = "".join(message.content for message in messages)
    assert len(text.encode()) < MAX_OPENING
    assert given.text in text
    # Nothing is left out for it: which of the params a node needs is not known here.
    assert all(name in text for name in given.parameters)
    assert text.count("# Example ") == 3
    names = DOCK.metrics if "metrics" in given.sources else DOCK.tables
    assert all(name in text for name in names)


async def test_where_replies_have_a_schema_the_rules_say_so() -> None:
    given = request(metrics())
    tools = await opened(given.calls, given.question)
    plain, as_json = (
        Prompt.load(as_json=wanted).opening(given, tools, (), mask=MASK)[0].content
        for wanted in (False, True)
    )
    assert as_json.startswith(plain)
    assert "JSON object" in as_json.removeprefix(plain)
