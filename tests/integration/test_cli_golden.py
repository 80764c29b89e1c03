"""`triage test`: golden cases through the real command line."""

from __future__ import annotations

import shutil
import urllib.request
from pathlib import Path

import orjson
import pytest

from tests.command_line import ALERT, SOP, TOML, TOOL, environment, make_project, serving, triage
from tests.forked_commands import run_forked
from tests.servers import wait_until
from triage.cli.exit_codes import MEANINGS

WALK = """\
about: A deep queue gets a worker.
alert: {alarm: QueueDeep, entity: mail}
verdicts: {obs_deep: true}
expect: {outcome: actions, actions: [add_worker]}
"""
EXAMPLE = Path(__file__).parents[2] / "examples" / "host"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project whose store holds one decision: a queue of 40 jobs gets a worker."""
    folder = make_project(tmp_path_factory.mktemp("made") / "project")
    with serving(folder) as daemon:
        request = urllib.request.Request(  # noqa: S310 - our own local URL
            f"{daemon.url}/api/v1/alerts",
            data=orjson.dumps({**ALERT, "labels": {"team": "post: #1\n'x'"}}),
        )
        with urllib.request.urlopen(request, timeout=10):  # noqa: S310 - likewise
            pass

        def decided() -> bool:
            return bool(triage("ledger", "--json", cwd=folder).json["decided"])

        wait_until(decided, what="a decision", process=daemon.process)
        assert daemon.terminate() == 0
    return folder


@pytest.fixture
def project(made: Path, tmp_path: Path) -> Path:
    return shutil.copytree(made, tmp_path / "project")


def _id(project: Path) -> str:
    (head,) = triage("decisions", "list", "--json", cwd=project).json["decisions"]
    return str(head["alert_id"])


def _walk(project: Path, text: str = WALK, name: str = "deep") -> Path:
    (project / "golden").mkdir(exist_ok=True)
    (project / "golden" / f"{name}.yaml").write_text(text)
    return project / "golden" / f"{name}.yaml"


def _new_version(project: Path, source: str) -> None:
    (project / "tool.py").write_text(source)
    assert triage("tools", "add", "obs_deep", "tool.py", cwd=project).code == 0
    assert triage("tools", "promote", "obs_deep", "--by", "bob", cwd=project).code == 0


# --- walks ------------------------------------------------------------------------------------


def test_a_walk_needs_neither_tools_nor_sources(project: Path) -> None:
    shutil.rmtree(project / "tools_lib")
    (project / "facts.db").unlink()
    _walk(project)
    ended = triage("test", "--coverage", cwd=project)
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.splitlines() == [
        "passed    deep",
        "1 case: 1 passed",
        "coverage: 100 % of nodes (1 of 1), 33.3 % of edges (1 of 3)",
        "never walked: obs_deep false → close_alert",
        "never walked: obs_deep failed → look",
    ]


def test_a_walk_that_fails_says_how(project: Path) -> None:
    _walk(project, WALK.replace("obs_deep: true", "obs_deep: false"))
    _walk(project, WALK.replace("obs_deep: true", ""), name="silent")
    ended = triage("test", cwd=project)
    assert (ended.code, ended.err) == (1, "")
    assert ended.out.splitlines() == [
        "failed    deep",
        "    A deep queue gets a worker.",
        "    actions: expected add_worker, got nothing",
        "    actions: expected nothing, got close_alert on mail ← obs_deep",
        "    walked: obs_deep false",
        "failed    silent",
        "    A deep queue gets a worker.",
        "    obs_deep: is reached, and the case says nothing of it",
        "    add what it says under `verdicts` in golden/silent.yaml",
        "2 cases: 0 passed, 2 failed",
        "coverage: 100 % of nodes (1 of 1), 33.3 % of edges (1 of 3)",
    ]
    as_json = triage("test", "--json", "-k", "DEEP", cwd=project)
    assert (as_json.code, as_json.err) == (1, "")
    document = as_json.json
    assert (document["ok"], document["failed"], len(document["cases"])) == (False, 1, 1)
    assert document["cases"][0]["differences"][0] == {
        "part": "actions",
        "node": "",
        "expected": "add_worker",
        "got": "nothing",
        "explanation": "",
    }
    assert document["coverage"]["missed_edges"] == [
        ["obs_deep", "true", "add_worker"],
        ["obs_deep", "failed", "look"],
    ]


def test_too_little_coverage_fails_the_run(project: Path) -> None:
    _walk(project)
    enough = triage(
        "test", "--min-node-coverage", "100", "--min-edge-coverage", "33.3", cwd=project
    )
    assert (enough.code, enough.err) == (0, "")
    less = triage("test", "--min-edge-coverage", "33.4", cwd=project)
    assert less.code == 1
    assert "33.3 % of edges are covered, and 33.4 % must be: --coverage lists the" in less.err
    assert triage("test", "--json", "--min-edge-coverage", "50", cwd=project).json["ok"] is False


def test_the_folder_may_be_elsewhere(project: Path) -> None:
    _walk(project).parent.rename(project / "cases")
    (project / "triage.toml").write_text(TOML.replace("[sources", 'golden = "cases"\n[sources', 1))
    assert triage("test", cwd=project).code == 0
    file = triage("test", "--cases", "cases/deep.yaml", "--config", "triage.toml", cwd=project)
    assert (file.code, file.out.splitlines()[0]) == (0, "passed    deep")


# --- recorded ---------------------------------------------------------------------------------


def test_a_stored_decision_becomes_a_case_that_passes(project: Path) -> None:
    alert_id = _id(project)
    _walk(project)
    added = triage("test", "add", alert_id[:8], cwd=project)
    name = f"QueueDeep-{alert_id[:8]}"
    assert (added.code, added.out, added.err) == (0, f"golden/{name}.yaml: recorded\n", "")
    (project / "facts.db").unlink()
    shutil.rmtree(project / "data")
    ended = triage("test", cwd=project)
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.splitlines()[:2] == [f"passed    {name}", "passed    deep"]
    text = (project / "golden" / f"{name}.yaml").read_text()
    assert '  answer: \'{"rows":[{"depth":40}]}\'\n' in text
    assert "  - {action: add_worker, subject: mail}\n" in text


def test_a_changed_tool_is_caught_explained_and_accepted(project: Path) -> None:
    assert triage("test", "add", _id(project), "--name", "deep", cwd=project).code == 0
    file = project / "golden" / "deep.yaml"
    file.write_text("# kept\n" + file.read_text())
    before = file.read_text()
    _new_version(
        project, TOOL.replace('"depth", depth, ">", limit', '"depth", depth, ">", 3*limit+20')
    )
    ended = triage("test", cwd=project)
    assert ended.code == 1
    assert ended.out.splitlines()[:6] == [
        "failed    deep",
        "    obs_deep: expected true, got false",
        "      40 jobs wait",
        "      depth: 40 > 50 jobs ✗",
        "    actions: expected add_worker on mail, got nothing",
        "    actions: expected nothing, got close_alert on mail ← obs_deep",
    ]
    assert file.read_text() == before
    updated = triage("test", "--update", cwd=project)
    assert updated.code == 0
    assert updated.out.splitlines()[0] == "updated   deep"
    assert "    obs_deep: expected true, got false" in updated.out.splitlines()
    assert triage("test", "--update", cwd=project).out.splitlines()[0] == "passed    deep"
    after = file.read_text()
    changed = [
        (old, new)
        for old, new in zip(before.splitlines(), after.splitlines(), strict=True)
        if old != new
    ]
    assert changed == [
        ("    obs_deep: true", "    obs_deep: false"),
        (
            "  - {action: add_worker, subject: mail}",
            "  - {action: close_alert, subject: mail}",
        ),
    ]
    assert triage("tools", "rollback", "obs_deep", "--by", "bob", cwd=project).code == 0
    assert triage("test", cwd=project).code == 1


def test_a_query_that_was_not_recorded_is_a_failure(project: Path) -> None:
    assert triage("test", "add", _id(project), "--name", "deep", cwd=project).code == 0
    before = (project / "golden" / "deep.yaml").read_text()
    _new_version(project, TOOL.replace("select depth from", "select depth, name from"))
    ended = triage("test", "--update", cwd=project)
    assert ended.code == 1
    assert (
        "    obs_deep: unrecorded: tables: select depth, name from queues where name = :name"
        " with name=mail" in ended.out.splitlines()
    )
    assert "`triage test add ALERT_ID --name deep --replace`" in ended.out
    assert ended.err == "golden/deep.yaml: is unrecorded: not updated\n"
    assert (project / "golden" / "deep.yaml").read_text() == before
    as_json = triage("test", "--json", cwd=project).json
    assert as_json["cases"][0]["unrecorded"][0]["node"] == "obs_deep"


def test_a_case_is_not_written_over_unless_asked(project: Path) -> None:
    file = _walk(project)
    taken = triage("test", "add", _id(project), "--name", "deep", cwd=project)
    assert taken.code == 2
    assert "golden/deep.yaml is there already: give another --name, or --replace it" in taken.err
    assert file.read_text() == WALK
    replaced = triage(
        *("test", "add", _id(project), "--name", "deep", "--replace", "--about", "why: 'so'"),
        cwd=project,
    )
    assert replaced.code == 0
    assert "about: \"why: 'so'\"\n" in file.read_text()
    assert triage("test", cwd=project).code == 0


def test_a_walk_is_never_updated(project: Path) -> None:
    file = _walk(project, WALK.replace("obs_deep: true", "obs_deep: false"))
    before = file.read_text()
    ended = triage("test", "--update", cwd=project)
    assert (ended.code, ended.err) == (1, "golden/deep.yaml: was written by hand: not updated\n")
    assert file.read_text() == before


# --- mistakes ---------------------------------------------------------------------------------

MISTAKES: list[tuple[str, int, str]] = [
    ("test --cases absent", 2, "absent: No such file or directory: write a case there, record one"),
    ("test --cases tools_lib", 2, "tools_lib: holds no case (.yaml, .yml or .json)"),
    ("test -k frob", 2, "holds no case whose name holds 'frob'"),
    ("test", 2, "golden/bad.yaml:3: obs_depe: the SOP has no node `obs_depe` — did you mean"),
    ("test", 2, "is not YAML"),
    ("test", 2, "2 cases: 0 passed, 2 unusable"),
    ("test --json", 2, '"state": "unusable"'),
    ("test --min-node-coverage 101", 2, "--min-node-coverage"),
    ("test --config absent.toml", 78, "absent.toml: cannot be read"),
    ("test frob", 2, "No such command"),
    ("test --coverage add abcdef", 2, "put it after `add`"),
    ("test add", 2, "Missing argument"),
    ("test add abc", 2, "is too short"),
    ("test add ffffffff", 1, "ffffffff was never accepted here"),
    ("test add ffffffff --name ../x", 2, "letters, digits"),
]


def test_mistakes_end_with_a_message_and_a_documented_code(project: Path) -> None:
    _walk(project, WALK.replace("obs_deep", "obs_depe"), name="bad")
    _walk(project, "[", name="worse")
    lines = [line for line, _, _ in MISTAKES]
    ran = run_forked([(line.split(), project) for line in lines], environment())
    for (line, code, said), (ended, out, err) in zip(MISTAKES, ran, strict=True):
        assert (ended, said in out + err) == (code, True), (line, ended, out, err)
        assert "Traceback" not in err
        assert ended in MEANINGS


def test_a_broken_procedure_or_tool_is_told(project: Path) -> None:
    assert triage("test", "add", _id(project), "--name", "deep", cwd=project).code == 0
    (project / "tools_lib" / "obs_deep" / "v1.py").write_text("# changed\n")
    tampered = triage("test", cwd=project)
    assert tampered.code == 78
    assert "is not what was approved" in tampered.err
    (project / "sop.yaml").write_text(SOP.replace("[add_worker]", "[add_wroker]"))
    assert triage("test", cwd=project).code == 78


def test_the_example_is_covered_whole(tmp_path: Path) -> None:
    ended = triage(
        "test", "--config", str(EXAMPLE / "triage.toml"), "--min-edge-coverage", "100", cwd=tmp_path
    )
    assert (ended.code, ended.err) == (0, "")


def test_a_new_project_comes_with_cases(tmp_path: Path) -> None:
    assert triage("init", "new", cwd=tmp_path).code == 0
    ended = triage("test", "--min-node-coverage", "100", cwd=tmp_path / "new")
    assert (ended.code, ended.err) == (0, "")
    assert "golden" in triage("schema", "golden", cwd=tmp_path).json["$id"]
    schema = (tmp_path / "new" / "golden" / "scrapes.yaml").read_text().splitlines()[0]
    named = schema.removeprefix("# yaml-language-server: $schema=")
    assert orjson.loads((tmp_path / "new" / "golden" / named).read_bytes())["$id"]
