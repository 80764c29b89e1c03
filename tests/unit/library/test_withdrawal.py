"""Versions in shadow, deprecated and retired; approvals and what they bind to."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.unit.library.building import AT, GOOD, node, sop
from triage.errors import ConfigError, InvalidFiles, ToolFailed, ToolFailure
from triage.library.catalogue import Tool
from triage.library.lifecycle import (
    add_version,
    deprecate,
    describe,
    promotable,
    promote,
    retire,
    rollback,
    shadow_start,
    shadow_stop,
    verify,
)
from triage.library.loader import load_library
from triage.library.manifest import Manifest, VersionStatus, read_manifest
from triage.model.canonical import sha256_hex
from triage.model.decision import NodeId

N = NodeId("obs_a")
ONE = sop(node("obs_a"))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Version 1 was active, 2 is, 3 is a candidate."""
    library = tmp_path / "tools_lib"
    for number in (1, 2, 3):
        add_version(library, ONE, N, source(number), maker="hand", at=AT)
    for number in (1, 2):
        promote(library, ONE, N, number, by="ann", at=AT)
    path = library / N / "tool.toml"
    path.write_text(path.read_text().replace("[[versions]]", "# mine\n[[versions]]", 1))
    return library


def source(number: int) -> bytes:
    return GOOD + f"\nNUMBER = {number}\n".encode()


def manifest(root: Path) -> Manifest:
    return read_manifest(root, N)[0]


def text(root: Path) -> str:
    return (root / N / "tool.toml").read_text()


def status(root: Path, number: int) -> VersionStatus:
    entry = manifest(root).version(number)
    assert entry is not None
    return entry.status


def verbs(root: Path) -> list[tuple[str, int, str, str]]:
    return [(act.verb.value, act.version, act.by, act.note) for act in manifest(root).history]


# --- shadow ------------------------------------------------------------------------------------


def test_into_shadow_and_out_again(root: Path) -> None:
    before = verbs(root)
    assert shadow_start(root, ONE, N, 3, by="ben", at=AT, note="a week") == []
    assert (manifest(root).shadow, manifest(root).active) == (3, 2)
    assert status(root, 3) is VersionStatus.SHADOW
    assert [line for line in text(root).splitlines()[:5] if line.startswith("shadow")] == [
        "shadow = 3"
    ]
    tool = load_library(root, ONE).get(N)
    assert isinstance(tool, Tool)
    assert tool.version == 2
    assert shadow_stop(root, ONE, N, by="cat", at=AT) == 3
    assert manifest(root).shadow is None
    assert status(root, 3) is VersionStatus.CANDIDATE
    assert verbs(root)[len(before) :] == [
        ("shadow", 3, "ben", "a week"),
        ("shadow_stop", 3, "cat", ""),
    ]
    assert "# mine\n[[versions]]" in text(root)


def test_a_version_that_was_approved_is_deprecated_again_after_its_shadow(root: Path) -> None:
    shadow_start(root, ONE, N, 1, by="ben", at=AT)
    shadow_stop(root, ONE, N, by="ben", at=AT)
    assert status(root, 1) is VersionStatus.DEPRECATED
    assert rollback(root, ONE, N, by="ben", at=AT) == 1


def test_a_shadow_of_a_node_without_an_active_version(tmp_path: Path) -> None:
    library = tmp_path / "tools_lib"
    add_version(library, ONE, N, GOOD, maker="hand", at=AT)
    shadow_start(library, ONE, N, 1, by="ben", at=AT)
    assert manifest(library).shadow == 1


def test_a_shadow_that_is_promoted_ends(root: Path) -> None:
    shadow_start(root, ONE, N, 3, by="ben", at=AT)
    promote(root, ONE, N, 3, by="ann", at=AT)
    assert (manifest(root).shadow, manifest(root).active) == (None, 3)


@pytest.mark.parametrize(
    ("version", "says"),
    [(2, "is active"), (7, "there are: 1, 2, 3"), (3, "in shadow already"), (1, "--stop` it")],
)
def test_what_cannot_be_put_in_shadow(root: Path, version: int, says: str) -> None:
    shadow_start(root, ONE, N, 3, by="ben", at=AT)
    unchanged(root, says, lambda: shadow_start(root, ONE, N, version, by="ben", at=AT))


def test_a_retired_version_does_not_come_back(root: Path) -> None:
    retire(root, ONE, N, 3, by="ben", at=AT)
    for act in (shadow_start, promote, deprecate):
        unchanged(root, "retired", lambda act=act: act(root, ONE, N, 3, by="ben", at=AT))  # type: ignore[misc]
    unchanged(root, "is retired already", lambda: retire(root, ONE, N, 3, by="b", at=AT))


def test_nothing_to_stop(root: Path) -> None:
    unchanged(root, "no version is in shadow", lambda: shadow_stop(root, ONE, N, by="b", at=AT))


# --- out of use --------------------------------------------------------------------------------


def test_no_rollback_returns_to_what_was_deprecated(root: Path) -> None:
    promote(root, ONE, N, 3, by="ann", at=AT)
    assert deprecate(root, ONE, N, 2, by="ben", at=AT, note="wrong on Sundays") == []
    assert verbs(root)[-1] == ("deprecate", 2, "ben", "wrong on Sundays")
    assert rollback(root, ONE, N, by="cat", at=AT) == 1
    promote(root, ONE, N, 2, by="ann", at=AT)
    assert manifest(root).active == 2


def test_a_candidate_that_nobody_wants(root: Path) -> None:
    deprecate(root, ONE, N, 3, by="ben", at=AT)
    assert status(root, 3) is VersionStatus.DEPRECATED
    unchanged(root, "deprecated already", lambda: deprecate(root, ONE, N, 3, by="b", at=AT))


def test_deprecating_a_shadow_ends_it(root: Path) -> None:
    shadow_start(root, ONE, N, 3, by="ben", at=AT)
    deprecate(root, ONE, N, 3, by="ben", at=AT)
    assert (manifest(root).shadow, status(root, 3)) == (None, VersionStatus.DEPRECATED)


def test_the_active_version_is_not_deprecated(root: Path) -> None:
    unchanged(root, "rollback obs_a", lambda: deprecate(root, ONE, N, 2, by="b", at=AT))


def test_retiring_keeps_the_file(root: Path) -> None:
    assert retire(root, ONE, N, 1, by="ben", at=AT, note="replaced") == []
    assert (root / N / "v1.py").read_bytes() == source(1)
    assert status(root, 1) is VersionStatus.RETIRED
    assert verbs(root)[-1] == ("retire", 1, "ben", "replaced")
    unchanged(root, "no version was active before", lambda: rollback(root, ONE, N, by="b", at=AT))
    assert verify(root, ONE) == []


def test_retiring_a_shadow_ends_it(root: Path) -> None:
    shadow_start(root, ONE, N, 3, by="ben", at=AT)
    retire(root, ONE, N, 3, by="ben", at=AT)
    assert (manifest(root).shadow, status(root, 3)) == (None, VersionStatus.RETIRED)


def test_the_active_version_is_retired_only_on_purpose(root: Path) -> None:
    unchanged(root, "--leave-without-tool", lambda: retire(root, ONE, N, 2, by="b", at=AT))
    retire(root, ONE, N, 2, by="ben", at=AT, leave_without_tool=True)
    assert manifest(root).active is None
    assert "# mine\n[[versions]]" in text(root)
    failed = load_library(root, ONE).get(N)
    assert isinstance(failed, ToolFailed)
    assert failed.failure is ToolFailure.MISSING  # the fallback answers
    assert [row.status for row in describe(root, ONE)] == ["missing"]
    assert rollback(root, ONE, N, by="cat", at=AT) == 1
    assert manifest(root).active == 1


def test_a_node_all_of_whose_versions_are_retired(root: Path) -> None:
    for number in (1, 3):
        retire(root, ONE, N, number, by="ben", at=AT)
    retire(root, ONE, N, 2, by="ben", at=AT, leave_without_tool=True)
    failed = load_library(root, ONE).get(N)
    assert isinstance(failed, ToolFailed)
    assert failed.failure is ToolFailure.RETIRED
    assert add_version(root, ONE, N, source(4), maker="hand", at=AT) == 4


@pytest.mark.parametrize("act", [deprecate, retire])
def test_what_was_changed_may_go_out_of_use(root: Path, act: Callable[..., list[object]]) -> None:
    """That can be why it goes; but it is said."""
    (root / N / "v3.py").write_bytes(source(9))
    (warning,) = act(root, ONE, N, 3, by="ben", at=AT)
    assert "is not what was approved" in str(warning)
    assert str(warning).startswith(str(root / N / "v3.py"))


@pytest.mark.parametrize(
    "act",
    [
        lambda root, by: shadow_start(root, ONE, N, 3, by=by, at=AT),
        lambda root, by: shadow_stop(root, ONE, N, by=by, at=AT),
        lambda root, by: deprecate(root, ONE, N, 3, by=by, at=AT),
        lambda root, by: retire(root, ONE, N, 3, by=by, at=AT),
    ],
    ids=["shadow_start", "shadow_stop", "deprecate", "retire"],
)
def test_who_does_it_must_be_named(root: Path, act: Callable[[Path, str], object]) -> None:
    for name in ("", "  ", "x" * 201):
        unchanged(root, "must be named", lambda name=name: act(root, name))  # type: ignore[misc]


# --- approval ----------------------------------------------------------------------------------


def test_two_persons(root: Path) -> None:
    for name in ("hand", " Hand "):
        unchanged(
            root,
            "made by hand — with make.two_persons another person",
            lambda name=name: promote(root, ONE, N, 3, by=name, at=AT, two_persons=True),  # type: ignore[misc]
        )
        with pytest.raises(ConfigError, match="another person"):
            promotable(root, ONE, N, 3, by=name, two_persons=True)
    promote(root, ONE, N, 3, by="ann", at=AT, two_persons=True)
    assert manifest(root).active == 3


def test_one_person_will_do_by_default(root: Path) -> None:
    promote(root, ONE, N, 3, by="hand", at=AT)
    assert manifest(root).active == 3


def test_an_approval_records_who_when_and_what(root: Path) -> None:
    promote(root, ONE, N, 3, by="ben", at=AT)
    entry = manifest(root).version(3)
    assert entry is not None
    assert (entry.approver, entry.approved_at, entry.approved_sha256) == (
        "ben",
        AT,
        sha256_hex(source(3)),
    )


def test_what_was_tried_is_what_is_promoted(root: Path) -> None:
    entry = promotable(root, ONE, N, 3, by="ben")
    assert entry.sha256 == sha256_hex(source(3))
    unchanged(
        root,
        "changed while it was tried",
        lambda: promote(root, ONE, N, 3, by="ben", at=AT, sha256=sha256_hex(source(9))),
    )
    promote(root, ONE, N, 3, by="ben", at=AT, sha256=entry.sha256)


@pytest.mark.parametrize(
    "act",
    [
        lambda root: promotable(root, ONE, N, 3, by="ben"),
        lambda root: promote(root, ONE, N, 3, by="ben", at=AT),
        lambda root: shadow_start(root, ONE, N, 3, by="ben", at=AT),
    ],
    ids=["promotable", "promote", "shadow_start"],
)
@pytest.mark.parametrize("change", [b"\n", b"\nimport os\n"])
def test_a_changed_file_is_refused(
    root: Path, act: Callable[[Path], object], change: bytes
) -> None:
    (root / N / "v3.py").write_bytes(source(3) + change)
    unchanged(root, "is not what was approved", lambda: act(root))


def test_a_file_changed_after_its_approval_is_refused_everywhere(root: Path) -> None:
    (root / N / "v2.py").write_bytes(source(2) + b"\n")
    failed = load_library(root, ONE).get(N)
    assert isinstance(failed, ToolFailed)
    assert failed.failure is ToolFailure.TAMPERED
    assert [Path(finding.file).name for finding in verify(root, ONE)] == ["v2.py"]
    promote(root, ONE, N, 3, by="ann", at=AT)
    unchanged(root, "is not what was approved", lambda: rollback(root, ONE, N, by="b", at=AT))
    unchanged(root, "is not what was approved", lambda: promote(root, ONE, N, 2, by="b", at=AT))
    unchanged(
        root, "is not what was approved", lambda: shadow_start(root, ONE, N, 2, by="b", at=AT)
    )


def test_an_active_tool_is_not_redefined_under_its_approval(root: Path) -> None:
    """File and hash changed together: the approval is of another source."""
    (root / N / "v2.py").write_bytes(source(9))
    path = root / N / "tool.toml"
    old, new = sha256_hex(source(2)), sha256_hex(source(9))
    path.write_text(text(root).replace(f'\nsha256 = "{old}"', f'\nsha256 = "{new}"'))
    assert text(root).count(new) == 1
    failed = load_library(root, ONE).get(N)
    assert isinstance(failed, ToolFailed)
    assert failed.failure is ToolFailure.TAMPERED
    assert "ann approved another source" in failed.detail
    with pytest.raises(InvalidFiles, match="approved another source"):
        promote(root, ONE, N, 3, by="ben", at=AT)


def test_no_rollback_to_what_was_redefined(root: Path) -> None:
    (root / N / "v1.py").write_bytes(source(9))
    path = root / N / "tool.toml"
    old, new = sha256_hex(source(1)), sha256_hex(source(9))
    path.write_text(text(root).replace(f'\nsha256 = "{old}"', f'\nsha256 = "{new}"'))
    unchanged(root, "is not what ann approved", lambda: rollback(root, ONE, N, by="b", at=AT))
    promote(root, ONE, N, 1, by="ben", at=AT)  # a new approval
    entry = manifest(root).version(1)
    assert entry is not None
    assert (entry.approver, entry.approved_sha256) == ("ben", new)


def test_a_redefinition_is_a_new_version_that_nobody_approved(root: Path) -> None:
    number = add_version(root, ONE, N, source(9), maker="hand", at=AT)
    entry = manifest(root).version(number)
    assert entry is not None
    assert (entry.status, entry.approver, entry.approved_sha256) == (
        VersionStatus.CANDIDATE,
        "",
        "",
    )
    tool = load_library(root, ONE).get(N)
    assert isinstance(tool, Tool)
    assert tool.sha256 == sha256_hex(source(2))


def test_an_approval_from_before_hashes_were_kept_stands(root: Path) -> None:
    path = root / N / "tool.toml"
    kept = [line for line in text(root).splitlines() if not line.startswith("approved_sha256")]
    path.write_text("\n".join(kept) + "\n")
    assert isinstance(load_library(root, ONE).get(N), Tool)
    assert rollback(root, ONE, N, by="ben", at=AT) == 1


def test_what_a_making_knows_stands_in_the_manifest(root: Path) -> None:
    number = add_version(root, ONE, N, source(9), maker="hand", at=AT, max_queries=3, gap="0a1b2c")
    entry = manifest(root).version(number)
    assert entry is not None
    assert (entry.max_queries, entry.gap) == (3, "0a1b2c")


def unchanged(root: Path, says: str, act: Callable[[], object]) -> None:
    """It is refused with these words, and nothing is written."""
    before = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
    with pytest.raises(ConfigError, match=says):
        act()
    assert {path: path.read_bytes() for path in root.rglob("*") if path.is_file()} == before
