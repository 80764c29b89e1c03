from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from bench.annotator.judge import Judge
from bench.annotator.judged import VALUES, Judged, Value
from bench.annotator.settings import Action, Settings, settings_of
from bench.annotator.walk import Annotation, Dropped, Taken, Within, annotate, settle, walk
from tests.unit.bench_annotator.dock import Dock, T, settings

FACTS: dict[str, Any] = {
    "layout": {},
    "id_words": {},
    "id_width": {},
    "outbound_areas": [],
    "donor_areas": [],
    "spare_parts": {},
}


def _procedure() -> Settings:
    nodes: dict[str, Any] = {
        "first": {"kind": "observation", "on_true": ["a", "b"], "on_false": ["close"]},
        "a": {"kind": "root_cause", "on_true": ["b", "stop"], "on_no_data": ["watch"]},
        "b": {"kind": "constraint", "on_true": ["link"], "on_false": ["ticket", "first"]},
    }
    actions = {
        "close": {"rank": 1, "yields": True},
        "watch": {"rank": 2, "yields": True},
        "link": {"rank": 3, "cancels": ["ticket", "stop"]},
        "ticket": {"rank": 4},
        "stop": {"rank": 5},
    }
    sop = {"alarms": {"al": ["first"]}, "aliases": {"Other": "al"}, "params": {}}
    return settings_of({**sop, "nodes": nodes, "actions": actions}, {"defaults": {"facts": FACTS}})


def _same(asset: str, container: str) -> bool:
    return asset == container


def _walked(
    alarm: str = "al", *, within: Within = _same, **verdicts: tuple[Value, str]
) -> Annotation:
    asked: list[str] = []

    def answer(node: str) -> Judged:
        assert node not in asked
        asked.append(node)
        return Judged(*verdicts[node])

    return walk(
        _procedure(),
        alarm,
        answer=answer,
        within=within,
    )


def test_a_refuted_alert_is_closed() -> None:
    done = _walked(first=("false", "X"))
    assert done.outcome == "actions"
    assert done.actions == (Taken("close", "X"),)
    assert (done.observed, done.root_causes, done.dropped) == ((), (), ())


def test_every_node_once_and_actions_by_subject() -> None:
    done = _walked("Other", first=("true", "X"), a=("true", "Y"), b=("false", "X"))
    assert list(done.verdicts) == ["first", "a", "b"]
    assert done.observed == ("first",)
    assert done.root_causes == (("a", "Y"),)
    assert done.actions == (Taken("stop", "Y"), Taken("ticket", "X"))


def test_an_action_cancels_on_its_subject_and_on_what_lies_in_it() -> None:
    inside = {("Y", "X")}
    done = _walked(
        within=lambda asset, container: asset == container or (asset, container) in inside,
        first=("true", "X"), a=("true", "Y"), b=("true", "X"),
    )  # fmt: skip
    assert done.actions == (Taken("link", "X"),)
    assert done.dropped == (Dropped("stop", "Y", "cancelled"),)
    done = _walked(
        within=lambda asset, container: asset == container or (container, asset) in inside,
        first=("true", "X"), a=("true", "Y"), b=("true", "X"),
    )  # fmt: skip
    assert done.actions == (Taken("stop", "Y"), Taken("link", "X"))


def test_what_yields_and_what_is_outranked() -> None:
    actions = {
        "close": Action(rank=1, yields=True, cancels=frozenset()),
        "watch": Action(rank=2, yields=True, cancels=frozenset()),
        "act": Action(rank=3, yields=False, cancels=frozenset({"act"})),
        "stay": Action(rank=3, yields=False, cancels=frozenset()),
    }

    close, watch, other = Taken("close", "X"), Taken("watch", "X"), Taken("watch", "Y")
    stay, act = Taken("stay", "Y"), Taken("act", "X")
    assert settle(actions, [close, watch, other], _same) == (
        (watch, other),
        (Dropped("close", "X", "outranked"),),
    )
    assert settle(actions, [close, stay], _same) == ((stay,), (Dropped("close", "X", "yielded"),))
    # What is cancelled does not make others yield, but it still cancels.
    assert settle(actions, [act, close], _same) == ((close,), (Dropped("act", "X", "cancelled"),))
    assert settle(actions, [], _same) == ((), ())


@pytest.mark.parametrize(
    ("verdicts", "outcome"),
    [
        ({"first": ("no_data", "X")}, "inconclusive"),
        ({"first": ("true", "X"), "a": ("false", "X"), "b": ("no_data", "X")}, "inconclusive"),
        ({"first": ("true", "X"), "a": ("no_data", "X"), "b": ("no_data", "X")}, "actions"),
    ],
)
def test_outcomes(verdicts: dict[str, tuple[Value, str]], outcome: str) -> None:
    assert _walked("al", within=_same, **verdicts).outcome == outcome


def test_no_fault_and_unrouted() -> None:
    nodes = {"first": {"kind": "root_cause"}}
    sop = {"alarms": {"al": ["first"]}, "params": {}, "nodes": nodes, "actions": {}}
    procedure = settings_of(sop, {"defaults": {"facts": FACTS}})

    def value(alarm: str) -> str:
        return walk(
            procedure,
            alarm,
            answer={"first": Judged("false", "X")}.__getitem__,
            within=_same,
        ).outcome

    assert value("al") == "no_fault"
    assert value("unheard of") == "escalate"


@examples(deadline=None)  # the first example reads the two files
@given(st.data())
def test_the_docks_walk_leads_from_every_alarm_to_a_decision(data: st.DataObject) -> None:
    dock = settings()
    alarm = data.draw(st.sampled_from(sorted(dock.alarms)))
    asked: dict[str, Judged] = {}

    def answer(node: str) -> Judged:
        assert node not in asked
        asked[node] = Judged(data.draw(st.sampled_from(VALUES)), data.draw(st.sampled_from("XY")))
        return asked[node]

    done = walk(dock, alarm, answer=answer, within=_same)
    assert done.verdicts == asked
    assert set(asked) <= dock.reached_from(alarm)
    assert {one.action for one in done.actions} <= set(dock.actions)
    firm = [one for one in done.actions if not dock.actions[one.action].yields]
    assert not firm or len(firm) == len(done.actions)


def test_an_alert_of_the_dock() -> None:
    dock = Dock()
    for number in range(1, 61):
        dock.state("chute_full", f"CH-{number:03d}", (1000, 0))
    dock.state("chute_full", "CH-007", (1000, 1))
    dock.answer("eye_margin", "CH-007", eyes=[{"eye": "CH-007", "margin_pct": 60}])
    dock.row("container_zone", at=T - 120, zone="ZN-1", empties=1, used_15min=5)
    dock.answer(
        "routes",
        "LS-1",
        routes=[
            {"chute": "CH-007", "cpt": T, "alternate": "CH-008", "enabled": True},
            {"chute": "CH-008", "cpt": T, "alternate": None, "enabled": True},
        ],
    )
    judge = Judge(dock, settings())
    done = annotate(judge, 0, T, "al_chute_full", "Chute 7")
    assert {node: verdict.value for node, verdict in done.verdicts.items()} == {
        "obs_chutes_full": "true",
        "obs_chutes_clustered": "false",
        "rc_photo_eye_dirty": "false",
        "rc_container_short": "true",
        "con_alt_chute_free": "true",
    }
    assert done.root_causes == (("rc_container_short", "ZN-1"),)
    assert done.actions == (Taken("bring_containers", "ZN-1"), Taken("reroute_chute", "CH-007"))
    assert done.dropped == (Dropped("watch_15_min", "CH-007", "yielded"),)
    assert judge.within(0, "CH-007", "LS-1")
    assert not judge.within(0, "LS-1", "CH-007")
