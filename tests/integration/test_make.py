"""`triage make`, over HTTP, with the real sandbox and a real source."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.command_line import Ended, triage
from tests.integration.make_world import (
    BROKEN,
    BY_HEART,
    HARMFUL,
    NODE,
    OFF_BY_ONE,
    RIGHT,
    Maker,
    answering,
    cases,
    project,
)
from triage.library.manifest import VersionStatus, read_manifest


async def make(folder: Path, *args: str) -> Ended:
    return await asyncio.to_thread(triage, "make", *args, cwd=folder)


async def made(tmp_path: Path, maker: Maker, *args: str) -> tuple[Ended, Path]:
    async with answering(maker) as server:
        folder = project(tmp_path / "project", server.url)
        return await make(folder, NODE, *args), folder


def record(folder: Path, name: str = "last.json") -> Any:
    return orjson.loads((folder / "tools_lib" / NODE / "made" / name).read_bytes())


def versions(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "tools_lib" / NODE).glob("v*.py"))


# --- mistakes -----------------------------------------------------------------------------------


def test_without_an_endpoint_it_says_which_settings_to_write(tmp_path: Path) -> None:
    folder = project(tmp_path / "project", "")
    ended = triage("make", NODE, cwd=folder)
    assert ended.code == 78
    assert "llm_url" in ended.err
    assert "[make]" in ended.err


def test_a_node_that_is_not_there(tmp_path: Path) -> None:
    folder = project(tmp_path / "project", "http://127.0.0.1:1")
    for args, what in ((("obs_dep",), "did you mean `obs_deep`?"), ((), "name one")):
        ended = triage("make", *args, cwd=folder)
        assert ended.code == 2
        assert what in ended.err


@pytest.mark.parametrize(
    ("numbers", "what"),
    [
        (range(0), "no labelled case"),
        (range(1), "none is a held-out one"),
        (range(2), "expect false"),  # one trains
    ],
)
def test_too_few_cases_say_what_to_do(tmp_path: Path, numbers: range, what: str) -> None:
    folder = project(tmp_path / "project", "http://127.0.0.1:1")
    cases(folder, numbers)
    ended = triage("make", NODE, cwd=folder)
    assert ended.code == 78
    assert what in ended.err
    assert f"triage cases add {NODE}" in ended.err


def test_cases_that_are_wrong_are_named_with_their_line(tmp_path: Path) -> None:
    folder = project(tmp_path / "project", "http://127.0.0.1:1")
    (folder / "tools_lib" / NODE / "cases.jsonl").write_text('{"warehouse": 7}\n')
    ended = triage("make", NODE, cwd=folder)
    assert ended.code == 78
    assert "cases.jsonl:1" in ended.err


async def test_a_model_that_is_down(tmp_path: Path) -> None:
    ended, folder = await made(tmp_path, Maker(RIGHT, down_after=0), "--no-traces")
    assert ended.code == 69
    assert "model_server_error" in ended.err
    assert versions(folder) == []


async def test_a_source_that_is_down(tmp_path: Path) -> None:
    async with answering(Maker(RIGHT, [RIGHT])) as server:
        folder = project(tmp_path / "project", server.url)
        (folder / "facts.db").unlink()
        ended = await make(folder, NODE, "--no-traces")
    assert ended.code in (1, 69)
    assert versions(folder) == []


# --- what a gate refuses ------------------------------------------------------------------------


async def test_code_that_the_policy_refuses_is_never_run(tmp_path: Path) -> None:
    maker = Maker(HARMFUL, [HARMFUL])
    ended, folder = await made(tmp_path, maker, "--no-traces", "--json")
    assert ended.code == 1
    assert ended.json["best"] is None
    assert "imports `os`" in ended.json["rounds"][0]["refused"]
    assert "reflect" not in maker.steps
    assert versions(folder) == []
    assert record(folder)["version"] is None


async def test_answers_learned_by_heart_are_refused_by_a_named_gate(tmp_path: Path) -> None:
    ended, folder = await made(tmp_path, Maker(BY_HEART), "--no-traces", "--json")
    assert ended.code == 1
    document = ended.json
    assert document["train"]["rate"] == 1
    refused = {one["name"] for one in document["gates"] if not one["passed"]}
    assert {"heldout", "shifted"} <= refused
    assert versions(folder) == []


async def test_a_candidate_that_always_fails_registers_nothing(tmp_path: Path) -> None:
    maker = Maker(BROKEN, [BROKEN])
    ended, folder = await made(tmp_path, maker, "--no-traces", "--rounds", "1", "--json")
    assert ended.code == 1
    (gate,) = [one for one in ended.json["gates"] if one["name"] == "heldout"]
    assert not gate["passed"]
    assert "KeyError" in maker.asked[1][1]
    assert versions(folder) == []


async def test_a_dry_run_writes_nothing(tmp_path: Path) -> None:
    ended, folder = await made(tmp_path, Maker(RIGHT), "--no-traces", "--dry-run")
    assert ended.code == 0, ended.err
    assert versions(folder) == []
    assert not (folder / "tools_lib" / NODE / "made").exists()
    assert "would be registered" in ended.err


# --- a tool -------------------------------------------------------------------------------------


async def test_from_a_question_to_a_candidate(tmp_path: Path) -> None:
    maker = Maker(OFF_BY_ONE, [RIGHT])
    ended, folder = await made(tmp_path, maker)
    assert ended.code == 0, ended.err
    assert maker.steps == ["collect"] * 3 + ["make", "reflect", "repair"]
    first = maker.asked[3][1]
    assert first.count("## Trace ") == 3
    assert "depth | integer | 1 | 0 | 25 | 25 | 25\n" in first
    repair = maker.asked[5][1]
    assert "predicted: true\n" in repair
    assert "- depth: 10 >= 10 jobs -> true" in repair
    entry = read_manifest(folder / "tools_lib", NODE)[0].version(1)
    assert entry is not None
    assert (entry.status, entry.maker) == (VersionStatus.CANDIDATE, "triage make (script)")
    assert (entry.train_passed, entry.train_total) == (6, 6)
    assert (entry.heldout_passed, entry.heldout_total) == (6, 6)
    assert entry.max_queries == 1
    kept = record(folder, "v1.json")
    assert [one["step"] for one in kept["transcript"]] == maker.steps
    assert len(list((folder / "tools_lib" / NODE / "traces").glob("*.json"))) == 3
    assert f"triage tools promote {NODE} 1" in ended.err
    for part in ("first", "repair 1 *", "5/6", "6/6", "expected by predicted", "heldout"):
        assert part in ended.out
    # It is a candidate that nothing runs; a person can make it the active one.
    promoted = triage("tools", "promote", NODE, "--by", "ann", cwd=folder)
    assert promoted.code == 0, promoted.err


async def test_a_second_making_goes_on_from_the_first_ones_traces(tmp_path: Path) -> None:
    maker = Maker(RIGHT)
    async with answering(maker) as server:
        folder = project(tmp_path / "project", server.url)
        assert (await make(folder, NODE)).code == 0
        again = await make(folder, NODE, "--by", "ann", "--json")
    assert again.code == 0, again.err
    document = again.json
    assert document["version"] == 2
    # The same cases are collected anew; none is there twice.
    assert len({one["origin"] for one in document["traces"]}) == len(document["traces"]) == 3
    entry = read_manifest(folder / "tools_lib", NODE)[0].version(2)
    assert entry is not None
    assert entry.maker == "ann"


async def test_the_fallbacks_endpoint_serves_where_make_has_none(tmp_path: Path) -> None:
    maker = Maker(RIGHT)
    async with answering(maker) as server:
        folder = project(tmp_path / "project", server.url, section="fallback")
        ended = await make(folder, NODE, "--no-repair")
    assert ended.code == 0, ended.err
    assert maker.steps == ["collect"] * 3 + ["make"]
