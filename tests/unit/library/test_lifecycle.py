from __future__ import annotations

import difflib
import multiprocessing
import stat
import threading
from pathlib import Path

import pytest

from tests.unit.library.building import AT, GOOD, add_active, node, sop
from triage.errors import ConfigError, InvalidFiles
from triage.library.catalogue import Tool
from triage.library.lifecycle import add_version, describe, promote, rollback, verify
from triage.library.loader import load_library
from triage.library.manifest import Manifest, VersionStatus, read_manifest
from triage.model.canonical import sha256_hex
from triage.model.decision import NodeId

N = NodeId("obs_a")
ONE = sop(node("obs_a"))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "tools_lib"


def source(number: int) -> bytes:
    return GOOD + f"\nNUMBER = {number}\n".encode()


def add(root: Path, number: int) -> int:
    return add_version(root, ONE, N, source(number), maker="hand", at=AT)


def manifest(root: Path) -> Manifest:
    return read_manifest(root, N)[0]


def text(root: Path) -> str:
    return (root / N / "tool.toml").read_text()


def changes(before: str, after: str) -> tuple[list[str], list[str]]:
    """Lines removed and added, stripped."""
    lines = list(difflib.ndiff(before.splitlines(), after.splitlines()))
    removed = [line[2:].strip() for line in lines if line.startswith("- ")]
    added = [line[2:].strip() for line in lines if line.startswith("+ ")]
    return removed, added


def test_add_is_a_candidate_that_does_not_run(root: Path) -> None:
    assert (
        add_version(
            root, ONE, N, GOOD, maker="hand", at=AT, train=(9, 10), heldout=(5, 5), note="first"
        )
        == 1
    )
    assert (root / N / "v1.py").read_bytes() == GOOD
    (entry,) = manifest(root).versions
    assert entry.status is VersionStatus.CANDIDATE
    assert entry.sha256 == sha256_hex(GOOD)
    assert entry.sop_text_sha256 == ONE.nodes[N].text_sha256
    assert (entry.train_passed, entry.train_total, entry.heldout_passed) == (9, 10, 5)
    assert manifest(root).history[0].note == "first"
    assert manifest(root).active is None
    assert N in load_library(root, ONE).broken


def test_promote_rollback_and_what_stands_in_the_file(root: Path) -> None:
    for number in (1, 2, 3):
        assert add(root, number) == number
    path = root / N / "tool.toml"
    path.write_text(text(root).replace("[[versions]]", "# mine\n[[versions]] # also mine", 1))
    path.chmod(0o640)
    promote(root, ONE, N, 1, by="ann", at=AT)
    before = text(root)
    assert promote(root, ONE, N, 2, by="ben", at=AT, note="better") == []
    removed, added = changes(before, text(root))
    assert removed == ["active = 1", 'status = "active"', 'status = "candidate"']
    act = '{at = 2026-01-01T00:00:00Z, verb = "promote", version = 2, by = "ben", note = "better"},'
    assert sorted(added) == sorted(
        [
            act,
            "active = 2",
            'status = "deprecated"',
            'status = "active"',
            'approver = "ben"',
            "approved_at = 2026-01-01T00:00:00Z",
            f'approved_sha256 = "{sha256_hex(source(2))}"',
        ]
    )
    before = text(root)
    assert rollback(root, ONE, N, by="cat", at=AT) == 1
    removed, added = changes(before, text(root))
    assert len([line for line in added if line.startswith("{at")]) == 1
    assert len(removed) == 3
    assert manifest(root).active == 1
    assert "# mine\n[[versions]] # also mine" in text(root)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert [(a.verb.value, a.version, a.by) for a in manifest(root).history[3:]] == [
        ("promote", 1, "ann"),
        ("promote", 2, "ben"),
        ("rollback", 1, "cat"),
    ]
    tool = load_library(root, ONE).get(N)
    assert isinstance(tool, Tool)
    assert tool.sha256 == sha256_hex(source(1))
    assert [path.name for path in (root / N).iterdir() if path.suffix == ".tmp"] == []


def test_each_rollback_goes_one_further_back(root: Path) -> None:
    for number in (1, 2, 3):
        add(root, number)
        promote(root, ONE, N, number, by="ann", at=AT)
    assert rollback(root, ONE, N, by="ann", at=AT) == 2
    assert rollback(root, ONE, N, by="ann", at=AT) == 1
    with pytest.raises(ConfigError, match="no version was active before"):
        rollback(root, ONE, N, by="ann", at=AT)
    promote(root, ONE, N, 3, by="ann", at=AT)
    assert rollback(root, ONE, N, by="ann", at=AT) == 1


def test_rollback_passes_over_a_retired_version(root: Path) -> None:
    for number in (1, 2, 3):
        add(root, number)
        promote(root, ONE, N, number, by="ann", at=AT)
    head, middle, tail = text(root).split("[[versions]]\n")[1:]
    preamble = text(root).split("[[versions]]\n")[0]
    middle = middle.replace('"deprecated"', '"retired"')
    (root / N / "tool.toml").write_text("[[versions]]\n".join([preamble, head, middle, tail]))
    assert rollback(root, ONE, N, by="ann", at=AT) == 1


@pytest.mark.parametrize("history", ["", "history = []\n", "[[history]]"])
def test_any_form_of_history_is_kept_up(root: Path, history: str) -> None:
    add(root, 1)
    body = text(root)
    start, end = body.index("history = ["), body.index("]\n") + 2
    if history == "[[history]]":
        body = (
            body[:start]
            + body[end:]
            + ('\n[[history]]\nat = 2026-01-01T00:00:00Z\nverb = "add"\nversion = 1\nby = "h"\n')
        )
    else:
        body = body[:start] + history + body[end:]
    (root / N / "tool.toml").write_text(body)
    before = len(manifest(root).history)
    promote(root, ONE, N, 1, by="ann", at=AT)
    assert len(manifest(root).history) == before + 1
    add(root, 2)
    promote(root, ONE, N, 2, by="ann", at=AT)
    assert [act.verb.value for act in manifest(root).history[before:]] == [
        "promote",
        "add",
        "promote",
    ]
    assert manifest(root).active == 2


def test_promoting_a_shadow_ends_the_shadow(root: Path) -> None:
    add(root, 1)
    body = text(root).replace('"candidate"', '"shadow"')
    (root / N / "tool.toml").write_text("shadow = 1\n" + body)
    promote(root, ONE, N, 1, by="ann", at=AT)
    assert (manifest(root).shadow, manifest(root).active) == (None, 1)


def test_refusals_change_nothing(root: Path) -> None:
    add(root, 1)
    add(root, 2)
    promote(root, ONE, N, 1, by="ann", at=AT)
    retired = text(root).replace('"candidate"', '"retired"')
    (root / N / "tool.toml").write_text(retired)
    for version, word in ((1, "active already"), (2, "retired"), (7, "there are: 1, 2")):
        with pytest.raises(ConfigError, match=word):
            promote(root, ONE, N, version, by="ann", at=AT)
    with pytest.raises(ConfigError, match="no version was active before"):
        rollback(root, ONE, N, by="ann", at=AT)
    with pytest.raises(ConfigError, match="named"):
        promote(root, ONE, N, 2, by=" ", at=AT)
    with pytest.raises(ConfigError, match="no node 'obs_b'"):
        promote(root, ONE, NodeId("obs_b"), 1, by="ann", at=AT)
    assert text(root) == retired


def test_promote_and_rollback_verify_the_hash(root: Path) -> None:
    add(root, 1)
    (root / N / "v1.py").write_bytes(source(9))
    before = text(root)
    with pytest.raises(ConfigError, match=r"v1\.py: is not what was approved"):
        promote(root, ONE, N, 1, by="ann", at=AT)
    assert text(root) == before
    (root / N / "v1.py").write_bytes(source(1))
    promote(root, ONE, N, 1, by="ann", at=AT)
    add(root, 2)
    promote(root, ONE, N, 2, by="ann", at=AT)
    (root / N / "v1.py").unlink()
    with pytest.raises(ConfigError, match=r"v1\.py: there is no such file"):
        rollback(root, ONE, N, by="ann", at=AT)
    assert manifest(root).active == 2


def test_add_refuses_what_the_policy_refuses(root: Path) -> None:
    with pytest.raises(InvalidFiles, match="imports `os`"):
        add_version(root, ONE, N, GOOD + b"import os\n", maker="hand", at=AT)
    with pytest.raises(ConfigError, match="reads_parents"):
        add_version(root, ONE, N, GOOD, maker="hand", at=AT, reads_parents=[NodeId("obs_b")])
    assert not (root / N / "tool.toml").exists()
    assert not list(root.glob("*/*.py"))


def test_add_never_takes_a_number_again(root: Path) -> None:
    (root / N).mkdir(parents=True)
    (root / N / "v4.py").write_bytes(b"left by a crash")
    assert add(root, 1) == 5
    assert (root / N / "v4.py").read_bytes() == b"left by a crash"
    (warning,) = [f for f in verify(root, ONE) if f.warning]
    assert warning.file.endswith("v4.py")


def test_promote_of_what_was_never_added(root: Path) -> None:
    root.mkdir()
    with pytest.raises(ConfigError, match="has no tool"):
        promote(root, ONE, N, 1, by="ann", at=AT)
    assert list(root.iterdir()) == []


def test_a_stale_promotion_warns(root: Path) -> None:
    add(root, 1)
    (finding,) = promote(root, sop(node("obs_a", text="Other.")), N, 1, by="ann", at=AT)
    assert finding.warning
    assert "another text" in finding.problem


def test_verify_looks_at_every_version(root: Path) -> None:
    for number in (1, 2, 3):
        add(root, number)
    promote(root, ONE, N, 3, by="ann", at=AT)
    assert verify(root, ONE) == []
    (root / N / "v1.py").write_bytes(b"x")
    (root / N / "v2.py").unlink()
    assert [(Path(f.file).name, f.warning) for f in verify(root, ONE)] == [
        ("v1.py", False),
        ("v2.py", False),
    ]
    assert isinstance(load_library(root, ONE).get(N), Tool)


def test_verify_without_an_active_version(root: Path) -> None:
    assert [f.file for f in verify(root, ONE)] == [str(root)]
    add(root, 1)
    assert [f.problem for f in verify(root, ONE)] == ["no version is active"]


def test_describe(root: Path) -> None:
    procedure = sop(node("obs_a", {"true": ["b", "c", "d"]}), node("b"), node("c"), node("d"))
    add_active(root, procedure, "obs_a")
    add_version(root, procedure, N, source(2), maker="hand", at=AT)
    add_active(root, procedure, "b", source(3))
    (root / "c").mkdir()
    (root / "c" / "tool.toml").write_text("nonsense")
    a, b, c, d = describe(root, procedure, quarantined={sha256_hex(source(3)): "slow"})
    assert (a.status, a.active, a.candidates, a.approver) == ("active", 1, (2,), "ann")
    assert a.sha256 == sha256_hex(GOOD)
    assert [act.verb.value for act in a.history] == ["add", "promote", "add"]
    assert (b.status, b.quarantined) == ("quarantined", "slow")
    assert (c.status, d.status) == ("broken", "missing")
    assert "tool.toml" in c.problem
    (row, *_) = describe(root, sop(node("obs_a", text="Other.")))
    assert row.stale


def test_threads_that_promote_at_once_lose_nothing(root: Path) -> None:
    count = 8
    for number in range(1, count + 1):
        add(root, number)
    start = threading.Barrier(count)

    def work(number: int) -> None:
        start.wait()
        promote(root, ONE, N, number, by=f"p{number}", at=AT)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(1, count + 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    after = manifest(root)
    promoted = [act for act in after.history if act.verb.value == "promote"]
    assert sorted(act.version for act in promoted) == list(range(1, count + 1))
    assert after.active == promoted[-1].version
    statuses = [entry.status for entry in after.versions]
    assert statuses.count(VersionStatus.ACTIVE) == 1
    assert statuses.count(VersionStatus.DEPRECATED) == count - 1


def _add_many(root: Path, first: int, count: int) -> None:
    for number in range(first, first + count):
        add(root, number)


def test_processes_that_add_at_once_lose_nothing(root: Path) -> None:
    context = multiprocessing.get_context("spawn")
    each = 5
    workers = [context.Process(target=_add_many, args=(root, 100 * k, each)) for k in (1, 2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
        assert worker.exitcode == 0
    after = manifest(root)
    assert [entry.version for entry in after.versions] == list(range(1, 2 * each + 1))
    written = {(root / N / f"v{e.version}.py").read_bytes() for e in after.versions}
    assert written == {source(100 * k + i) for k in (1, 2) for i in range(each)}
    assert [f for f in verify(root, ONE) if f.problem != "no version is active"] == []
