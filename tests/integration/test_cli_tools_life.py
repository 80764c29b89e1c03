"""The life of a version on the command line: approved on its cases, in shadow, out of use."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime
from pathlib import Path

import orjson
import pytest

from tests.command_line import ALERT, TOML, TOOL, Ended, make_project, triage
from triage.library.lifecycle import add_version
from triage.maker.cases_file import case_line
from triage.model.case import LabelledCase, RecordedAnswer, case_id, recorded
from triage.model.decision import NodeId
from triage.model.query import encode_answer
from triage.sop.load import load_sop
from triage.tool_api import rows

AT = datetime(2026, 6, 1, 12, 31, tzinfo=UTC)
SQL = "select depth from queues where name = :name"
UNCOMPARED = "was not run in sandbox and CPython to compare them"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_project(tmp_path_factory.mktemp("made"))


@pytest.fixture
def project(made: Path, tmp_path: Path) -> Path:
    return shutil.copytree(made, tmp_path / "project")


def tools(project: Path, *args: str) -> Ended:
    return triage("tools", *args, cwd=project)


def add(project: Path, text: str, maker: str = "ann") -> int:
    (project / "tool.py").write_text(text)
    added = tools(project, "add", "obs_deep", "tool.py", "--maker", maker)
    assert added.code == 0, added.err
    return int(added.out.split()[2])


def case(entity: str, depth: int | None, expected: str, *, answered: bool = True) -> LabelledCase:
    query = rows("tables", SQL, name=entity)
    answer = () if depth is None else ({"depth": depth},)
    answers: tuple[RecordedAnswer, ...] = (recorded(query, encode_answer(answer)),)
    return LabelledCase(
        case_id("obs_deep", "home", AT, entity, {}),
        NodeId("obs_deep"),
        "home",
        AT,
        expected,
        entity=entity,
        answers=answers if answered else (),
        origin="test",
        by="ann",
    )


def write_cases(project: Path, *cases: LabelledCase) -> None:
    path = project / "tools_lib" / "obs_deep" / "cases.jsonl"
    path.write_bytes(b"".join(case_line(one).rstrip(b"\n") + b"\n" for one in cases))


def acts(project: Path) -> list[tuple[str, int, str, str]]:
    history = tools(project, "show", "obs_deep", "--json").json["history"]
    return [(act["verb"], act["version"], act["by"], act["note"]) for act in history]


CASES = (case("mail", 40, "true"), case("idle", 0, "false"), case("gone", None, "no_data"))


# --- approval ----------------------------------------------------------------------------------


def test_a_promotion_without_cases_says_so(project: Path) -> None:
    number = add(project, TOOL.replace("jobs wait", "are waiting"))
    promoted = tools(project, "promote", "obs_deep", "--by", "bob")
    assert (promoted.code, promoted.out) == (
        0,
        f"obs_deep: version {number} is active in place of 1\n",
    )
    assert UNCOMPARED in promoted.err
    assert "the node has no labelled cases" in promoted.err
    assert "triage cases add obs_deep FILE" in promoted.err


def test_a_promotion_runs_the_cases_in_both_interpreters(project: Path) -> None:
    write_cases(project, *CASES)
    add(project, TOOL.replace("jobs wait", "are waiting"))
    promoted = tools(project, "promote", "obs_deep", "--by", "bob")
    assert promoted.code == 0, promoted.err
    assert UNCOMPARED not in promoted.err
    shown = tools(project, "show", "obs_deep", "--json").json["versions"][-1]
    assert (shown["approver"], shown["approved_sha256"]) == ("bob", shown["sha256"])


def test_what_the_interpreters_do_not_agree_on_is_not_promoted(project: Path) -> None:
    """The order of a set of texts: another one in each process of CPython."""
    names = [chr(97 + one) * 3 for one in range(20)]
    write_cases(project, *CASES)
    changed = TOOL.replace('jobs wait")', 'jobs wait", subject=list(NAMES)[0])')
    assert changed != TOOL
    number = add(project, f"{changed}\n\nNAMES = {set(names)!r}\n")
    before = acts(project)
    promoted = tools(project, "promote", "obs_deep", "--by", "bob")
    assert (promoted.code, promoted.out) == (78, "")
    assert f"v{number}.py: does not pass the gate 'interpreters'" in promoted.err
    assert CASES[0].case_id in promoted.err
    assert acts(project) == before


def test_what_was_not_recorded_is_asked_of_the_source(project: Path) -> None:
    write_cases(project, case("mail", 0, "true", answered=False), CASES[1])
    add(project, TOOL.replace("jobs wait", "are waiting"))
    promoted = tools(project, "promote", "obs_deep", "--by", "bob")
    assert promoted.code == 0, promoted.err
    assert UNCOMPARED not in promoted.err


def test_a_source_that_is_down_leaves_nothing_to_compare(project: Path) -> None:
    write_cases(project, case("mail", 0, "true", answered=False))
    (project / "facts.db").unlink()
    add(project, TOOL.replace("jobs wait", "are waiting"))
    promoted = tools(project, "promote", "obs_deep", "--by", "bob")
    assert promoted.code == 0, promoted.err
    assert UNCOMPARED in promoted.err
    assert "in 1 more a source did not answer" in promoted.err


def test_cases_that_cannot_be_read_hold_a_promotion_up(project: Path) -> None:
    (project / "tools_lib" / "obs_deep" / "cases.jsonl").write_text("{}\n")
    add(project, TOOL.replace("jobs wait", "are waiting"))
    promoted = tools(project, "promote", "obs_deep", "--by", "bob")
    assert promoted.code == 78
    assert "cases.jsonl:1" in promoted.err
    assert tools(project, "show", "obs_deep", "--json").json["active"] == 1


def test_two_persons(project: Path) -> None:
    (project / "triage.toml").write_text(f"{TOML}[make]\ntwo_persons = true\n")
    add(project, TOOL.replace("jobs wait", "are waiting"), maker="bob")
    refused = tools(project, "promote", "obs_deep", "--by", "Bob")
    assert refused.code == 78
    assert "another person must approve it" in refused.err
    assert tools(project, "promote", "obs_deep", "--by", "cy").code == 0


def test_a_file_changed_after_it_was_added_is_not_promoted(project: Path) -> None:
    write_cases(project, *CASES)
    number = add(project, TOOL.replace("jobs wait", "are waiting"))
    file = project / "tools_lib" / "obs_deep" / f"v{number}.py"
    file.write_text(file.read_text() + "\n")
    for command in (("promote", "obs_deep"), ("shadow", "obs_deep", "--start", str(number))):
        refused = tools(project, *command, "--by", "bob")
        assert refused.code == 78, command
        assert "is not what was approved" in refused.err


def test_a_gap_that_cannot_be_closed_is_said(project: Path) -> None:
    """The promotion stands: it is done already."""
    sop = load_sop(project / "sop.yaml")
    add_version(
        project / "tools_lib",
        sop,
        NodeId("obs_deep"),
        TOOL.replace("jobs wait", "are waiting").encode(),
        maker="ann",
        at=AT,
        gap="0a1b2c3d4e5f",
    )
    promoted = tools(project, "promote", "obs_deep", "--by", "bob")
    assert promoted.code == 0, promoted.err
    assert "gap 0a1b2c3d4e5f stays open" in promoted.err
    assert "triage gaps close 0a1b2c3d4e5f" in promoted.err
    assert tools(project, "show", "obs_deep", "--json").json["active"] == 2


# --- out of use --------------------------------------------------------------------------------


def test_from_shadow_to_retirement(project: Path) -> None:
    second = str(add(project, TOOL.replace("jobs wait", "are waiting")))
    third = str(add(project, TOOL.replace("jobs wait", "stand here")))
    started = tools(project, "shadow", "obs_deep", "--start", second, "--by", "bob")
    assert started.code == 0, started.err
    assert tools(project, "shadow", "obs_deep", "--stop", "--by", "bob").code == 0
    assert tools(project, "promote", "obs_deep", second, "--by", "bob").code == 0
    assert tools(project, "promote", "obs_deep", third, "--by", "bob").code == 0
    gone = tools(project, "deprecate", "obs_deep", second, "--by", "cy", "--note", "too slow")
    assert (gone.code, gone.out) == (0, f"obs_deep: version {second} is deprecated\n")
    back = tools(project, "rollback", "obs_deep", "--by", "cy")
    assert back.out == "obs_deep: version 1 is active again\n"
    retired = tools(project, "retire", "obs_deep", third, "--by", "dee")
    assert (retired.code, retired.out, retired.err) == (
        0,
        f"obs_deep: version {third} is retired\n",
        "",
    )
    assert (project / "tools_lib" / "obs_deep" / f"v{third}.py").is_file()
    assert [verb for verb, _, _, _ in acts(project)[-7:]] == [
        *("shadow", "shadow_stop", "promote", "promote", "deprecate", "rollback", "retire")
    ]
    assert ("deprecate", int(second), "cy", "too slow") in acts(project)
    assert tools(project, "verify").code == 0


def test_the_active_version_is_retired_only_on_purpose(project: Path) -> None:
    refused = tools(project, "retire", "obs_deep", "1", "--by", "dee")
    assert (refused.code, refused.out) == (78, "")
    assert "version 1 is active" in refused.err
    assert "--leave-without-tool" in refused.err
    retired = tools(project, "retire", "obs_deep", "1", "--leave-without-tool", "--by", "dee")
    assert retired.code == 0
    assert "obs_deep has no tool now: the fallback answers" in retired.err
    assert tools(project, "list", "--json").json["tools"][0]["status"] == "retired"
    (project / "triage.toml").write_text(
        TOML.replace("[sop]\n", "[sop]\nallow_broken_tools = true\n")
    )
    ended = triage("run", cwd=project, stdin=orjson.dumps(ALERT))
    assert "every version is retired" in ended.out


@pytest.mark.parametrize(
    ("args", "code", "says"),
    [
        ("deprecate obs_deep 1", 78, "is active"),
        ("deprecate obs_deep 9", 78, "there is no version 9"),
        ("retire obs_deep 9", 78, "there is no version 9"),
        ("retire obs_depe 1", 2, "did you mean `obs_deep`?"),
        ("retire obs_deep 0", 2, "should be greater than or equal to 1"),
    ],
)
def test_mistakes(project: Path, args: str, code: int, says: str) -> None:
    ended = tools(project, *args.split(), "--by", "bob")
    assert ended.code == code
    assert says in " ".join(ended.err.split())
