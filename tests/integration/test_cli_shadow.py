"""`triage tools shadow`: begun, compared by a real daemon, reported from its store and over HTTP,
and ended."""

from __future__ import annotations

import sqlite3
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.command_line import ALERT, TOML, TOOL, Daemon, Ended, make_project, serving, triage
from tests.servers import wait_until

NODE = "obs_deep"
STRICTER = TOOL.replace('context.params["depth"])', 'context.params["depth"]) * 2')
QUEUES = {f"queue-{n}": n for n in range(4, 32)}
"""Depths around the limit of 10 and the shadow's of 20."""

BETWEEN = {name for name, depth in QUEUES.items() if 10 < depth <= 20}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Version 2 is another tool, and a candidate that nobody approved."""
    folder = make_project(tmp_path_factory.mktemp("shadow") / "project")
    with sqlite3.connect(folder / "facts.db") as facts:
        facts.executemany("insert into queues values (?, ?)", QUEUES.items())
    facts.close()
    (folder / "tool.py").write_text(STRICTER)
    assert triage("tools", "add", NODE, "tool.py", "--maker", "ann", cwd=folder).code == 0
    return folder


@pytest.fixture(scope="module")
def daemon(project: Path) -> Iterator[Daemon]:
    started = shadow(project, "--start", "2", "--by", "ann", "--note", "try it")
    assert (started.code, started.out) == (0, f"{NODE}: version 2 is in shadow\n")
    assert "SIGHUP or POST /-/reload" in started.err
    with serving(project) as daemon:
        for name in QUEUES:
            post(daemon.url, {**ALERT, "entity": name})
        wait_until(
            lambda: compared(daemon) == len(QUEUES), what="all compared", process=daemon.process
        )
        yield daemon


@pytest.fixture(params=[False, True], ids=["file", "http"])
def where(request: pytest.FixtureRequest, daemon: Daemon) -> list[str]:
    return ["--url", daemon.url] if request.param else []


def shadow(folder: Path, *args: str) -> Ended:
    return triage("tools", "shadow", NODE, *args, cwd=folder)


def post(url: str, alert: dict[str, Any]) -> None:
    request = urllib.request.Request(f"{url}/api/v1/alerts", data=orjson.dumps(alert))  # noqa: S310 - our own local URL
    with urllib.request.urlopen(request, timeout=10) as response:  # noqa: S310 - likewise
        assert response.status == 202


def tallies(daemon: Daemon) -> list[dict[str, Any]]:
    with urllib.request.urlopen(f"{daemon.url}/api/v1/shadows", timeout=10) as response:  # noqa: S310 - likewise
        found: list[dict[str, Any]] = orjson.loads(response.read())["shadows"]
    return found


def compared(daemon: Daemon) -> int:
    return sum(sum(tally["counts"].values()) for tally in tallies(daemon))


def test_exactly_what_differs_is_reported(daemon: Daemon, where: list[str]) -> None:
    report = shadow(daemon.folder, "--all", *where, "--json").json
    assert report["shadow"] == tallies(daemon)[0]
    tally = report["shadow"]
    assert (tally["shadow_version"], tally["active_version"]) == (2, 1)
    assert tally["counts"] == {
        "agrees": len(QUEUES) - len(BETWEEN),
        "differs": len(BETWEEN),
        "unrecorded": 0,
        "failed": 0,
        "dropped": 0,
    }
    # Twice the limit is another clause, also where both come to the same.
    assert tally["other_clauses"] == len(QUEUES) - len(BETWEEN)
    decided = {}
    for one in report["comparisons"]:
        decision = triage("decisions", "show", one["alert_id"], "--json", cwd=daemon.folder).json
        decided[decision["entity"]] = (one, decision)
    assert set(decided) == BETWEEN
    for one, decision in decided.values():
        (node,) = decision["nodes"]
        assert (one["active"]["value"], one["shadow"]["value"]) == ("true", "false")
        assert one["active"]["clauses"] == node["clauses"]
        assert one["active"]["explanation"] == node["explanation"]
        assert [clause["threshold"] for clause in one["shadow"]["clauses"]] == [20]
        assert one["evidence"] == [node["asked"][0]["answer_sha256"]]
        assert one["differs_in"] == ["value", "clauses"]
        assert decision["outcome"] == "actions", "a shadow decides nothing"


def test_the_report_reads_like_one(daemon: Daemon, where: list[str]) -> None:
    ended = shadow(daemon.folder, *where)
    assert (ended.code, ended.err) == (0, "")
    agree, of = len(QUEUES) - len(BETWEEN), len(QUEUES)
    for line in (
        f"agreement  64.29 % ({agree} of {of}), 95 % confidence 45.83 % to 79.29 %",
        f"clauses    {agree} agree by other clauses",
        "at least 99 %: at no number of this agreement; 381 if all agree",
        f"differs: the newest 5 of {len(BETWEEN)}",
        "  active: true",
        "    depth: 20.0 > 20.0 jobs, does not hold",
    ):
        assert line in ended.out, ended.out
    assert ended.out.count("\n    active: ") == 5
    assert shadow(daemon.folder, "-n", "2", *where).out.count("    active: ") == 2
    assert "active: " not in shadow(daemon.folder, "-n", "0", *where).out
    assert "active: " not in shadow(daemon.folder, "--result", "failed", *where).out


def test_what_was_never_compared_is_told(daemon: Daemon, where: list[str]) -> None:
    other = triage("tools", "shadow", "rc_other", *where, cwd=daemon.folder)
    assert (other.code, other.out) == (1, "")
    assert "no shadow of rc_other was ever compared here" in other.err
    older = shadow(daemon.folder, "--of", "9", *where)
    assert (older.code, older.out) == (1, "")
    assert "v9 of obs_deep was not compared: there are v2" in older.err


def test_mistakes_are_told_and_change_nothing(daemon: Daemon) -> None:
    before = (daemon.folder / "tools_lib" / NODE / "tool.toml").read_bytes()
    for args, code, said in (
        (("--start", "2", "--stop"), 2, "one of --start and --stop"),
        (("--start", "2"), 78, "in shadow already"),
        (("--start", "1"), 78, "is active"),
        (("--start", "9"), 78, "there is no version 9"),
        (("--start", "0"), 2, "--start"),
        (("--result", "agrees"), 2, "--result"),
        (("--url", "ftp://x"), 2, "http://HOST:PORT"),
        (("--token-env", "X"), 2, "--url"),
    ):
        ended = shadow(daemon.folder, *args)
        assert (ended.code, ended.out) == (code, ""), (args, ended)
        assert said in ended.err, (args, ended.err)
    unknown = triage("tools", "shadow", "obs_dep", "--stop", cwd=daemon.folder)
    assert unknown.code == 2
    assert "has no node 'obs_dep'" in unknown.err
    assert (daemon.folder / "tools_lib" / NODE / "tool.toml").read_bytes() == before


def test_a_shadow_is_ended_and_a_reload_takes_that_up(tmp_path: Path) -> None:
    folder = make_project(tmp_path / "project")
    (folder / "tool.py").write_text(STRICTER)
    assert triage("tools", "add", NODE, "tool.py", cwd=folder).code == 0
    (folder / "triage.toml").write_text(TOML + "[log]\nlevel = 'info'\n")
    with serving(folder) as daemon:
        post(daemon.url, {**ALERT, "entity": "one"})
        assert shadow(folder, "--start", "2").code == 0
        reload(daemon)
        post(daemon.url, {**ALERT, "entity": "two"})
        wait_until(lambda: compared(daemon) == 1, what="one compared", process=daemon.process)
        ended = shadow(folder, "--stop", "--by", "ann", "--json")
        assert ended.json == {"node": NODE, "version": 2, "in_shadow": False}
        reload(daemon)
        post(daemon.url, {**ALERT, "entity": "three"})
        wait_until(lambda: decided(folder) == 3, what="all decided", process=daemon.process)
        assert daemon.terminate() == 0
    tally = shadow(folder, "--json").json["shadow"]
    assert sum(tally["counts"].values()) == 1
    history = triage("tools", "show", NODE, "--json", cwd=folder).json["history"]
    assert [act["verb"] for act in history][-2:] == ["shadow", "shadow_stop"]


def test_what_is_left_at_the_end_is_counted(tmp_path: Path) -> None:
    """A shadow that does not end holds nobody up, at the end neither."""
    folder = make_project(tmp_path / "project")
    (folder / "tool.py").write_text(
        TOOL.replace("    if not found:", "    while True:\n        pass\n    if not found:")
    )
    assert triage("tools", "add", NODE, "tool.py", cwd=folder).code == 0
    assert shadow(folder, "--start", "2").code == 0
    with serving(folder) as daemon:
        for number in range(12):
            post(daemon.url, {**ALERT, "entity": f"endless-{number}"})
        wait_until(lambda: decided(folder) == 12, what="all decided", process=daemon.process)
        assert daemon.terminate() == 0
    tally = shadow(folder, "--json").json["shadow"]
    counts = tally["counts"]
    assert counts["failed"] + counts["dropped"] == 12
    assert counts["agrees"] == counts["differs"] == 0


def reload(daemon: Daemon) -> None:
    request = urllib.request.Request(f"{daemon.url}/-/reload", method="POST")  # noqa: S310 - our own local URL
    with urllib.request.urlopen(request, timeout=10) as response:  # noqa: S310 - likewise
        assert response.status == 200


def decided(folder: Path) -> int:
    count: int = triage("ledger", "--json", cwd=folder).json["decided"]
    return count
