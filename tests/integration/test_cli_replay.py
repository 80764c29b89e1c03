"""`triage replay` on the store of a daemon that goes on serving from it."""

from __future__ import annotations

import sqlite3
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.command_line import Daemon, Ended, serving, triage
from tests.integration.replay_world import (
    ALERTS,
    SOP,
    TOOLS,
    add_library,
    copy_project,
    make_replay_project,
    post,
    tool,
)
from tests.servers import wait_until

Served = tuple[Daemon, dict[str, str]]


@dataclass(frozen=True, slots=True)
class World:
    """`names` maps an alert's id to what it is called in `ALERTS`."""

    folder: Path
    names: dict[str, str]

    def replay(self, *args: str) -> Any:
        return self._run(*args, "--json").json

    def ended(self, *args: str) -> Ended:
        return self._run(*args)

    def code(self, *args: str) -> int:
        return self._run(*args).code

    def _run(self, *args: str) -> Ended:
        ended = triage("replay", *args, cwd=self.folder)
        assert ended.err == ""
        return ended

    def statuses(self, document: Any) -> dict[str, str]:
        return {self.names[one["alert_id"]]: one["status"] for one in document["decisions"]}

    def one(self, document: Any, name: str) -> Any:
        (found,) = (one for one in document["decisions"] if self.names[one["alert_id"]] == name)
        return found


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Daemon, dict[str, str]]]:
    folder = make_replay_project(tmp_path_factory.mktemp("replay") / "project")
    with serving(folder) as daemon:
        names = {post(daemon.url, alert): name for name, alert in ALERTS.items()}
        _wait_decided(daemon, len(ALERTS))
        yield daemon, names


@pytest.fixture(scope="module")
def world(daemon: tuple[Daemon, dict[str, str]]) -> World:
    return World(daemon[0].folder, daemon[1])


@pytest.fixture(scope="module")
def new_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("new")


def _wait_decided(daemon: Daemon, number: int) -> None:
    def decided() -> bool:
        return bool(triage("ledger", "--json", cwd=daemon.folder).json["decided"] == number)

    wait_until(decided, what=f"{number} decisions", process=daemon.process)


def _sop(folder: Path, name: str, *changes: tuple[str, str]) -> str:
    """The path of a copy of the SOP with each text replaced, which must be there."""
    text = SOP
    for before, after in changes:
        assert before in text
        text = text.replace(before, after)
    (folder / name).write_text(text)
    return str(folder / name)


def _library(folder: Path, name: str, **changed: bytes) -> str:
    return str(add_library(folder / name, {**TOOLS, **changed}))


def test_what_served_it_changes_nothing(world: World) -> None:
    ended = world.ended()
    assert ended.code == 0
    assert ended.out.splitlines() == [
        "9 read: 8 equal, 0 changed, 0 unrecorded, 1 skipped",
        "skipped: 1 resolved before they were walked",
        "1 were degraded: what failed then was taken to fail again",
    ]
    document = world.replay()
    assert document["decisions"] == []
    summary = document["summary"]
    assert (summary["read"], summary["equal"], summary["degraded"]) == (9, 8, 1)
    assert summary["skipped"]["resolved_without_walk"] == 1
    assert (summary["sop"], summary["sop_version"]) == ("queues", 1)


def test_a_param_changes_exactly_what_lies_between(world: World, new_files: Path) -> None:
    sop = _sop(new_files, "param.yaml", ("value: 10", "value: 50"))
    document = world.replay("--sop", sop)
    assert world.statuses(document) == {"deep mail": "changed"}
    one = world.one(document, "deep mail")
    assert (one["old"]["outcome"], one["new"]["outcome"]) == ("actions", "actions")
    deep, stuck = one["nodes"]
    assert (deep["node"], deep["old"]["verdict"], deep["new"]["verdict"]) == (
        "obs_deep",
        "true",
        "false",
    )
    (flipped,) = deep["flipped"]
    assert flipped["name"] == "depth"
    assert (flipped["old"]["threshold"], flipped["new"]["threshold"]) == (10, 50)
    assert (flipped["old"]["holds"], flipped["new"]["holds"]) == (True, False)
    assert (stuck["node"], stuck["new"]) == ("cause_stuck", None)
    assert {a["action"]: (a["old"], a["new"]) for a in one["actions"]} == {
        "restart": ("effective", None),
        "look": ("yielded", None),
        "close_alert": (None, "effective"),
    }
    assert world.code("--sop", sop) == 1


def test_people_are_told_why(world: World, new_files: Path) -> None:
    sop = _sop(new_files, "people.yaml", ("value: 10", "value: 50"))
    out = world.ended("--sop", sop).out
    ids = {name: alert_id for alert_id, name in world.names.items()}
    assert out.startswith(f"{ids['deep mail']}  QueueDeep at home on mail, decided ")
    for line in (
        "outcome actions, as before",
        "obs_deep: true → false  (tool v1)",
        "was: depth is 40",
        "depth: 40 > 10 holds → 40 > 50 does not hold",
        "cause_stuck: no longer reached, was true",
        "action restart on mail: effective → not reached",
        "action look on mail: dropped (yielded) → not reached",
        "action close_alert on mail: not reached → effective",
        "9 read: 7 equal, 1 changed, 0 unrecorded, 1 skipped",
    ):
        assert line in out


def test_an_edge_to_an_action_changes_exactly_what_takes_it(world: World, new_files: Path) -> None:
    sop = _sop(
        new_files,
        "edge.yaml",
        ("on_true: [add_worker]\n    on_false", "on_true: [look]\n    on_false"),
    )
    document = world.replay("--sop", sop)
    assert world.statuses(document) == {"slow bulk": "changed"}
    one = world.one(document, "slow bulk")
    assert one["nodes"] == []
    assert {a["action"] for a in one["actions"]} == {"add_worker", "look"}


def test_an_edge_to_another_question_changes_it_with_an_open_end(
    world: World, new_files: Path
) -> None:
    sop = _sop(
        new_files,
        "question.yaml",
        ("on_true: [add_worker]\n    on_false", "on_true: [cause_stuck]\n    on_false"),
    )
    document = world.replay("--sop", sop)
    assert world.statuses(document) == {"slow bulk": "changed"}
    one = world.one(document, "slow bulk")
    assert one["new"]["outcome"] is None
    assert [(m["node"], m["why"]) for m in one["unrecorded"]] == [("cause_stuck", "not_asked")]
    assert document["summary"]["changed_outcome_unknown"] == 1
    assert "outcome actions → not known" in world.ended("--sop", sop).out


def test_a_threshold_in_a_tool_changes_exactly_what_lies_between(
    world: World, new_files: Path
) -> None:
    library = _library(new_files, "threshold", obs_slow=tool("age", "3.0"))
    document = world.replay("--library", library)
    assert world.statuses(document) == {"slow mail": "changed"}
    (slow,) = world.one(document, "slow mail")["nodes"]
    assert (slow["old"]["verdict"], slow["new"]["verdict"]) == ("false", "true")
    assert slow["old"]["tool_sha256"] != slow["new"]["tool_sha256"]
    assert world.code("--library", library) == 1


def test_another_query_in_a_tool_is_unrecorded_and_has_a_code_of_its_own(
    world: World, new_files: Path
) -> None:
    library = _library(new_files, "query", obs_slow=tool("age", "50.0", table="queues q"))
    document = world.replay("--library", library)
    assert world.statuses(document) == {"slow mail": "unrecorded", "slow bulk": "unrecorded"}
    assert document["summary"]["unrecorded_nodes"] == [
        {"node": "obs_slow", "why": "not_asked", "decisions": 2}
    ]
    ended = world.ended("--library", library, "--unrecorded")
    assert ended.code == 3
    assert "unrecorded in 2: obs_slow asks what was never recorded" in ended.out
    assert "from queues q where name = :name with name=bulk" in ended.out
    assert "queues q" not in world.ended("--library", library).out


def test_an_alert_that_is_routed_now_is_unrecorded(world: World, new_files: Path) -> None:
    sop = _sop(
        new_files,
        "routed.yaml",
        ("QueueLost: [obs_lost]", "QueueLost: [obs_lost], QueueGone: [obs_slow]"),
    )
    ended = world.ended("--sop", sop)
    assert ended.code == 3
    assert "of those unrecorded, 1 that no alarm was routed for, and now is" in ended.out
    assert world.statuses(world.replay("--sop", sop)) == {"unrouted": "unrecorded"}


def test_a_site_may_have_a_param_of_its_own(world: World, new_files: Path) -> None:
    (new_files / "sites.yaml").write_text("sites: {home: {zone: UTC, params: {depth: 50}}}\n")
    document = world.replay("--sites", str(new_files / "sites.yaml"))
    assert world.statuses(document) == {"deep mail": "changed"}


def test_filters_say_what_is_read(world: World, new_files: Path) -> None:
    def read(*args: str) -> int:
        return int(world.replay(*args)["summary"]["read"])

    assert read("--alarm", "QueueSlow") == 3
    assert read("--alarm", "QueueSlow", "--outcome", "resolved") == 1
    assert read("--limit", "2") == 2
    assert read("--site", "home") == 9
    assert read("--since", "1h", "--until", "now") == 9
    ended = triage("replay", "--site", "nowhere", cwd=world.folder)
    assert (ended.code, ended.err) == (0, "no decisions\n")
    sop = _sop(new_files, "filter.yaml", ("value: 10", "value: 50"))
    assert world.code("--sop", sop, "--alarm", "QueueSlow") == 0


def test_purged_answers_are_unrecorded(world: World, tmp_path: Path) -> None:
    copied = World(copy_project(world.folder, tmp_path / "purged"), world.names)
    with closing(sqlite3.connect(copied.folder / "data" / "triage.db")) as store, store:
        store.execute("delete from evidence")
    ended = copied.ended()
    assert ended.code == 3
    assert "9 read: 2 equal, 0 changed, 6 unrecorded, 1 skipped" in ended.out
    assert "obs_deep asks what was recorded and has been purged since" in ended.out


def test_a_replay_writes_nothing_and_the_daemon_goes_on(daemon: Served, tmp_path: Path) -> None:
    serving_one, names = daemon
    before = triage("ledger", "--json", "--full", cwd=serving_one.folder).json
    world = World(serving_one.folder, names)
    assert world.code() == 0
    assert triage("ledger", "--json", "--full", cwd=serving_one.folder).json == before
    with urllib.request.urlopen(f"{serving_one.url}/-/healthy", timeout=10) as response:  # noqa: S310 - our own local URL
        assert response.status == 200


def test_what_was_resolved_after_its_decision_is_still_compared(
    daemon: Served, tmp_path: Path
) -> None:
    """In a copy of the project: the others are told in numbers above."""
    copied = copy_project(daemon[0].folder, tmp_path / "resolved")
    with serving(copied) as second:
        post(second.url, {**ALERTS["deep mail"], "status": "resolved"})
        world = World(copied, daemon[1])
        sop = _sop(tmp_path, "new.yaml", ("value: 10", "value: 50"))
        assert world.statuses(world.replay("--sop", sop)) == {"deep mail": "changed"}
