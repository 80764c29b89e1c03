"""A second load does again what changed, and nothing else; and it trusts no file the more."""

from __future__ import annotations

import gc
import weakref
from typing import TYPE_CHECKING

import pytest

from tests.unit.library.building import AT, DYNAMIC, GOOD, add_active, node, sop
from tests.unit.library.test_loader import FakeContext
from triage.errors import ToolFailed, ToolFailure
from triage.library import linted, manifest, memory
from triage.library.lifecycle import add_version, promote
from triage.library.loader import load_library
from triage.library.memory import Memory, Remembered
from triage.library.policy import Checked, check_source
from triage.model.canonical import sha256_hex
from triage.model.decision import NodeId
from triage.model.query import Series
from triage.model.verdict import Truth, Verdict

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from triage.library.catalogue import Tool

A, B = NodeId("obs_a"), NodeId("obs_b")
BOTH = sop(node("obs_a", {"true": ["obs_b"]}), node("obs_b"))
OTHER = GOOD + b"\nOTHER = 1\n"
FORBIDDEN = GOOD + b"\nimport os\n"
WARNED = GOOD.replace(b"    series = ", b"    while True:\n        pass\n    series = ")


class Work:
    """What a load parsed and checked."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.manifests: list[str] = []
        self.checked: list[tuple[str, bool]] = []
        parse, check = manifest.parse_manifest, check_source

        def parse_manifest(body: bytes, *, file: Path, node: str) -> manifest.Manifest:
            self.manifests.append(node)
            return parse(body, file=file, node=node)

        def checking(
            source: bytes, *, file: str, node: str, dynamic: bool, linted: bool = False
        ) -> Checked:
            self.checked.append((node, linted))
            return check(source, file=file, node=node, dynamic=dynamic, linted=linted)

        monkeypatch.setattr("triage.library.loader.parse_manifest", parse_manifest)
        monkeypatch.setattr(memory, "check_source", checking)
        monkeypatch.setattr("triage.library.loader.check_source", checking)

    def clear(self) -> None:
        self.manifests.clear()
        self.checked.clear()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "tools_lib"
    add_active(root, BOTH, A)
    add_active(root, BOTH, B, OTHER)
    return root


@pytest.fixture
def work(root: Path, monkeypatch: pytest.MonkeyPatch) -> Work:
    return Work(monkeypatch)


def test_what_did_not_change_is_neither_parsed_nor_compiled_again(root: Path, work: Work) -> None:
    kept = Memory()
    first = load_library(root, BOTH, memory=kept)
    assert (work.manifests, work.checked) == ([A, B], [(A, False), (B, False)])
    work.clear()
    second = load_library(root, BOTH, memory=kept)
    assert (work.manifests, work.checked) == ([], [])
    assert second.tools[A].evaluate is first.tools[A].evaluate
    assert second == first


def test_what_changed_is_done_again_and_alone(root: Path, work: Work) -> None:
    kept = Memory()
    first = load_library(root, BOTH, memory=kept)
    number = add_version(root, BOTH, A, GOOD + b"\nNEW = 2\n", maker="hand", at=AT)
    promote(root, BOTH, A, number, by="me", at=AT)
    work.clear()
    second = load_library(root, BOTH, memory=kept)
    assert (work.manifests, work.checked) == ([A], [(A, False)])
    assert second.tools[A].version == 2
    assert second.tools[A].evaluate.__globals__["NEW"] == 2
    assert second.tools[B].evaluate is first.tools[B].evaluate


def test_a_tampered_file_is_refused_after_a_load_that_took_it(root: Path) -> None:
    kept = Memory()
    assert A in load_library(root, BOTH, memory=kept).tools
    (root / A / "v1.py").write_bytes(GOOD.replace(b"8.0", b"9.0"))
    again = load_library(root, BOTH, memory=kept)
    failed = again.get(A)
    assert isinstance(failed, ToolFailed)
    assert failed.failure is ToolFailure.TAMPERED
    assert B in again.tools
    # And taken again once it is what was approved.
    (root / A / "v1.py").write_bytes(GOOD)
    assert A in load_library(root, BOTH, memory=kept).tools


def test_a_source_that_the_manifest_no_longer_names_is_refused(root: Path) -> None:
    kept = Memory()
    load_library(root, BOTH, memory=kept)
    file = root / A / "tool.toml"
    file.write_text(file.read_text().replace(sha256_hex(GOOD), sha256_hex(OTHER)))
    failed = load_library(root, BOTH, memory=kept).get(A)
    assert isinstance(failed, ToolFailed)
    assert failed.failure is ToolFailure.TAMPERED


def test_a_quarantined_tool_is_not_taken_from_memory(root: Path) -> None:
    kept = Memory()
    load_library(root, BOTH, memory=kept)
    failed = load_library(root, BOTH, memory=kept, quarantined={sha256_hex(GOOD): "slow"}).get(A)
    assert isinstance(failed, ToolFailed)
    assert failed.failure is ToolFailure.QUARANTINED


def test_a_remembered_tool_is_stale_when_the_text_changes(root: Path) -> None:
    kept = Memory()
    load_library(root, BOTH, memory=kept)
    changed = sop(node("obs_a", {"true": ["obs_b"]}, text="Something else?"), node("obs_b"))
    library = load_library(root, changed, memory=kept)
    assert (library.tools[A].stale, library.tools[B].stale) == (True, False)


def test_warnings_are_told_at_every_load(root: Path) -> None:
    add_active(root, BOTH, A, WARNED)
    kept = Memory()
    first = load_library(root, BOTH, memory=kept).findings
    assert [finding.where for finding in first] == [A]
    assert load_library(root, BOTH, memory=kept).findings == first
    assert linted.key(sha256_hex(WARNED), False) not in kept.latest.passed


def test_memory_holds_the_last_load_only(root: Path) -> None:
    kept = Memory()
    load_library(root, BOTH, memory=kept)
    load_library(root, sop(node("obs_b")), memory=kept)
    assert list(kept.latest.manifests) == [B]
    assert [name for name, _ in kept.latest.ready] == [B]


def test_another_root_is_another_library(root: Path, tmp_path: Path, work: Work) -> None:
    kept = Memory()
    load_library(root, BOTH, memory=kept)
    root.rename(tmp_path / "moved")
    work.clear()
    load_library(tmp_path / "moved", BOTH, memory=kept)
    assert work.manifests == [A, B]
    # Verdicts on bytes count anywhere.
    assert work.checked == []


def passed(*sources: tuple[bytes, bool]) -> Memory:
    keys = frozenset(linted.key(sha256_hex(body), dynamic) for body, dynamic in sources)
    return Memory(Remembered(passed=keys))


def call(tool: Tool) -> Verdict:
    """What it says of a queue that is nine deep."""
    context = FakeContext(given=(Series({}, (1.0, 2.0), (9.0, 9.0)),))
    assert tool.queries is not None
    assert len(tool.queries("w", AT, context)) == 1
    verdict = tool.evaluate("w", AT, context)
    assert isinstance(verdict, Verdict)
    return verdict


def test_a_source_that_passed_before_is_compiled_when_it_is_called(root: Path, work: Work) -> None:
    kept = passed((GOOD, False))
    tools = load_library(root, BOTH, memory=kept).tools
    assert work.checked == [(B, False)]
    assert call(tools[A]) == call(tools[B])
    # Once, and not linted.
    assert work.checked == [(B, False), (A, True)]
    again = load_library(root, BOTH, memory=kept).tools
    call(again[A])
    assert work.checked == [(B, False), (A, True)]
    assert again == tools
    assert tools[A].file == "tools_lib/obs_a/v1.py"
    assert linted.key(sha256_hex(GOOD), False) in kept.latest.passed


def test_a_deferred_tool_answers_as_it_was_verified(root: Path) -> None:
    tool = load_library(root, BOTH, memory=passed((GOOD, False))).tools[A]
    (root / A / "v1.py").write_text("raise SystemExit\n")
    assert call(tool).value is Truth.TRUE


async def test_a_deferred_dynamic_tool_is_awaited(root: Path) -> None:
    add_active(root, BOTH, A, DYNAMIC, dynamic=True)
    tool = load_library(root, BOTH, memory=passed((DYNAMIC, True))).tools[A]
    assert tool.queries is None
    verdict = await tool.evaluate("w", AT, FakeContext(given=({"n": 1},)))
    assert verdict.value is Truth.TRUE


def test_a_deferred_tool_that_does_not_load_after_all_is_a_failed_tool(root: Path) -> None:
    put(root, GOOD + b"\nBAD = 1 / 0\n")
    kept = passed((GOOD + b"\nBAD = 1 / 0\n", False))
    tool = load_library(root, BOTH, memory=kept).tools[A]
    for _ in range(2):
        with pytest.raises(ToolFailed, match="ZeroDivisionError"):
            tool.evaluate("w", AT, FakeContext(given=()))


def test_a_tool_that_did_not_load_has_not_passed(root: Path) -> None:
    put(root, GOOD + b"\nBAD = 1 / 0\n")
    kept = Memory()
    assert load_library(root, BOTH, memory=kept).broken[A].failure is ToolFailure.RAISED
    assert kept.latest.passed == {linted.key(sha256_hex(OTHER), False)}


def test_deferred_tools_keep_no_load_alive(root: Path) -> None:
    kept = passed((GOOD, False))
    load_library(root, BOTH, memory=kept)
    first = weakref.ref(kept.latest.manifests[A][1])
    add_active(root, BOTH, A)
    load_library(root, BOTH, memory=kept)
    gc.collect()
    assert first() is None


def put(root: Path, source: bytes) -> None:
    """Make `source` the active version of A, hash and all, without asking the policy."""
    (root / A / "v1.py").write_bytes(source)
    file = root / A / "tool.toml"
    file.write_text(file.read_text().replace(sha256_hex(GOOD), sha256_hex(source)))


def test_a_verdict_is_of_one_contract(root: Path, work: Work) -> None:
    load_library(root, BOTH, memory=passed((GOOD, True)))
    assert work.checked == [(A, False), (B, False)]


@pytest.mark.parametrize("source", [GOOD, WARNED, FORBIDDEN, b"def ", b"\xff", b"a\0b"])
def test_linted_sources_compile_to_the_same_code(source: bytes) -> None:
    plain = check_source(source, file="f.py", node="n", dynamic=False)
    vouched = check_source(source, file="f.py", node="n", dynamic=False, linted=True)
    if plain.code is None and not _compiles(source):
        assert vouched == plain
    else:
        assert vouched.code is not None
        assert plain.code is None or vouched.code == plain.code


def _compiles(source: bytes) -> bool:
    try:
        compile(source.decode(), "f.py", "exec")
    except ValueError:
        return False
    except SyntaxError:
        return False
    return True


# --- the file of verdicts ---------------------------------------------------------------------


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "linted"


KEYS = frozenset({linted.key("0" * 64, False), linted.key("a" * 64, True)})


def test_what_was_written_is_read(file: Path) -> None:
    linted.write(file, KEYS)
    assert linted.read(file) == KEYS
    linted.write(file, [])
    assert linted.read(file) == frozenset()


def test_no_file_is_no_verdict(file: Path) -> None:
    assert linted.read(file) == frozenset()
    assert linted.read(file.parent) == frozenset()


def test_verdicts_of_another_policy_do_not_count(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = linted.fingerprint()
    linted.write(file, KEYS)
    changed: Mapping[str, frozenset[str]] = {"math": frozenset({"fsum"})}
    monkeypatch.setattr("triage.library.rules.ALLOWED_IMPORTS", changed)
    assert linted.fingerprint() != before
    assert linted.read(file) == frozenset()


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_a_file_that_others_may_write_does_not_count(file: Path, mode: int) -> None:
    linted.write(file, KEYS)
    file.chmod(mode)
    assert linted.read(file) == frozenset()


@pytest.mark.parametrize("damage", [b"", b"\xff\n", b"x\n", b"\n\n", b"short dynamic\n"])
def test_a_damaged_file_does_not_count(file: Path, damage: bytes) -> None:
    linted.write(file, KEYS)
    file.write_bytes(damage)
    assert linted.read(file) == frozenset()
    linted.write(file, KEYS)
    with file.open("ab") as stream:
        stream.write(damage + b"z")
    assert linted.read(file) == frozenset()


def test_a_forged_verdict_runs_nothing_that_the_manifest_does_not_pin(
    root: Path, file: Path, tmp_path: Path
) -> None:
    witness = tmp_path / "ran"
    evil = GOOD + f"\nopen({str(witness)!r}, 'w')\n".encode()
    linted.write(file, [linted.key(sha256_hex(evil), False)])
    (root / A / "v1.py").write_bytes(evil)
    library = load_library(root, BOTH, memory=Memory(Remembered(passed=linted.read(file))))
    failed = library.get(A)
    assert isinstance(failed, ToolFailed)
    assert failed.failure is ToolFailure.TAMPERED
    assert not witness.exists()
