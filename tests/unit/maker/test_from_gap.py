"""A gap as material, and whether a version answers it: what is gone or wrong first."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest

from tests.unit.maker.collect_world import AT, MASK, NODE, SOP, sites
from tests.unit.maker.test_traces_of_decision import EVIDENCE, TRUE, decision, result
from tests.unit.trial.trial_world import HEAD, Given, in_sandbox
from triage.adapters.sandbox import SandboxLimits
from triage.maker.from_gap import (
    Answered,
    GapMaterial,
    answers_evidence,
    case_settings,
    close_answered_gap,
    gap_material,
)
from triage.model.canonical import sha256_hex
from triage.model.query import Samples, Series, decode_answer, query_document
from triage.trial.model import Answers, Candidate

ALERT = "ab" * 16
GROUP: dict[str, Any] = {
    "gap_id": "0a1b2c3d4e5f",
    "node": "obs_full",
    "reason": "tool_raised",
    "tool_version": 1,
    "tool_sha256": "cd" * 32,
    "count": 3,
    "closed_at": None,
    "cases": [{"alert_id": ALERT}],
}
TEXT = f"""{HEAD}
def queries(warehouse, timestamp, context):
    return [samples("metrics", "tank_level", timestamp, 900)]
def evaluate(warehouse, timestamp, context):
    found = context.answer(queries(warehouse, timestamp, context)[0])
    if not found:
        return no_data("no level")
    return conclude([compare("level", found[0].values[-1], ">", 50.0)], "looked")
"""


def candidate(text: str = TEXT) -> Candidate:
    return Candidate(NODE, text, ("metrics", "orders"))


async def found(
    *, group: Mapping[str, Any] = GROUP, decisions: Mapping[str, Any] | None = None, **more: Any
) -> GapMaterial:
    async def evidence(digest: str) -> bytes | None:
        return EVIDENCE.get(digest)

    documents = {ALERT: decision(result(verdict=TRUE))} if decisions is None else decisions
    given = {"labels": {}, "sop": SOP, "sites": sites(), "mask": MASK, **more}
    return await gap_material(group, documents, evidence, **given)


async def answered(
    material: GapMaterial, text: str = TEXT, beyond: Answers | None = None
) -> Answered:
    async with in_sandbox(sandbox=SandboxLimits(workers=1)) as trials:
        return await answers_evidence(
            candidate(text), material, trials, case_settings(sites(), beyond)
        )


# --- material ---------------------------------------------------------------------------------


@pytest.mark.parametrize("lacking", ["gap_id", "node", "cases", "tool_sha256", "closed_at"])
async def test_what_is_no_gap_is_refused(lacking: str) -> None:
    group = {name: value for name, value in GROUP.items() if name != lacking}
    with pytest.raises(ValueError, match=f"it has no '{lacking}'"):
        await found(group=group)


async def test_what_is_gone_is_remarked_and_the_rest_is_taken() -> None:
    cases = [{"alert_id": "ef" * 16}, {"alert_id": ALERT}, {"alert_id": ALERT}]
    material = await found(group={**GROUP, "cases": cases})
    assert len(material.cases) == 1
    assert f"decision {'ef' * 16} is no longer stored" in material.remarks
    undecided = await found(decisions={ALERT: {"status": "pending"}})
    assert undecided.cases == ()
    assert "it is pending" in undecided.remarks[0]


async def test_a_node_that_the_procedure_lost_has_no_cases() -> None:
    material = await found(group={**GROUP, "node": "obs_gone"})
    assert material.cases == ()
    assert material.remarks == ("the SOP has no node 'obs_gone' any more",)


async def test_a_gap_is_cases_with_answers_and_the_fallbacks_traces() -> None:
    material = await found(labels={ALERT: {"dock": "west"}})
    assert (material.gap_id, material.node, material.is_open) == ("0a1b2c3d4e5f", NODE, True)
    (one,) = material.cases
    assert (one.warehouse, one.entity, one.timestamp, one.expected) == ("north", "TK-1", AT, "")
    assert one.labels == {"dock": "west"}
    (trace,) = material.traces
    assert trace.verdict == "true"
    asked = Samples("metrics", "tank_level", AT - timedelta(seconds=900), AT)
    answer = next(one for one in one.answers if one.query == query_document(asked))
    (series,) = decode_answer(answer.body)
    assert isinstance(series, Series)
    assert series.values == (80.0,)


async def test_one_that_is_closed_says_so() -> None:
    material = await found(group={**GROUP, "closed_at": AT.isoformat()})
    assert not material.is_open


# --- answering --------------------------------------------------------------------------------


async def test_another_nodes_tool_answers_nothing() -> None:
    material = (await found())._replace(node=SOP.nodes[NODE].node)
    async with in_sandbox() as trials:
        other = candidate()._replace(node=next(iter(SOP.nodes)))
        got = await answers_evidence(other, material, trials, case_settings(sites()))
    assert (got.ok, "the tool of obs_late" in got.detail) == (False, True)


async def test_without_cases_nobody_can_tell() -> None:
    got = await answered((await found())._replace(cases=()))
    assert not got.ok
    assert "nothing is left of the gap's 3 cases" in got.detail


async def test_a_verdict_in_every_case_answers_it() -> None:
    got = await answered(await found())
    assert got == Answered(ok=True, detail="a verdict in all of 1 case: true 1")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (TEXT.replace('"looked"', "1 / 0"), "tool_raised"),
        (TEXT.replace('samples("metrics"', 'samples("weather"'), "undeclared_source"),
        ("def queries(", "1 of 1 case"),
    ],
)
async def test_a_failure_in_a_case_does_not(text: str, said: str) -> None:
    got = await answered(await found(), text)
    assert (got.ok, got.unrecorded) == (False, False)
    assert said in got.detail
    assert f"decision {ALERT}" in got.detail


async def test_what_was_not_recorded_is_for_live_sources_only() -> None:
    material = await found()
    text = TEXT.replace("tank_level", "tank_volume")
    alone = await answered(material, text)
    assert (alone.ok, alone.unrecorded) == (False, True)
    assert "in 1 of 1 case it asks what was not recorded" in alone.detail
    live = Given(lambda _: (Series({}, (AT.timestamp(),), (10.0,)),))
    got = await answered(material, text, live)
    assert (got.ok, got.detail) == (True, "a verdict in all of 1 case: false 1")
    assert len(live.asked) == 1


async def test_recorded_answers_are_not_asked_again() -> None:
    live = Given({})
    assert (await answered(await found(), TEXT.replace("900", "300"), live)).ok
    assert live.asked == []


# --- closing ----------------------------------------------------------------------------------


class Notes(list[str]):
    async def close(self, note: str) -> None:
        self.append(note)


async def closed(material: GapMaterial, notes: Notes, text: str = TEXT) -> Answered:
    async with in_sandbox(sandbox=SandboxLimits(workers=1)) as trials:
        return await close_answered_gap(
            material,
            candidate(text),
            version=4,
            sha256=sha256_hex(text.encode()),
            trials=trials,
            settings=case_settings(sites()),
            close=notes.close,
        )


async def test_it_is_closed_with_version_and_hash() -> None:
    notes = Notes()
    got = await closed(await found(), notes)
    assert got.ok
    (note,) = notes
    assert "obs_full version 4" in note
    assert sha256_hex(TEXT.encode()) in note
    assert "a verdict in all of 1 case" in note


async def test_it_stays_open_and_says_why() -> None:
    notes = Notes()
    material = await found()
    fails = await closed(material, notes, TEXT.replace('"looked"', "1 / 0"))
    assert not fails.ok
    assert "stays open: it fails in 1 of 1 case" in fails.detail
    assert "triage gaps show 0a1b2c3d4e5f" in fails.detail
    again = await closed(material._replace(is_open=False), notes)
    assert again.detail == "gap 0a1b2c3d4e5f is closed already"
    same = await closed(material._replace(tool_sha256=sha256_hex(TEXT.encode())), notes)
    assert "the very source that left it" in same.detail
    assert notes == []
