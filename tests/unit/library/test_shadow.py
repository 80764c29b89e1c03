"""Shadows are read as text and verified, and one that is no good harms nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.unit.library.building import AT, GOOD, add_active, node, sop
from triage.library.lifecycle import add_version, shadow_start, shadow_stop
from triage.library.loader import load_library
from triage.library.manifest import manifest_path, source_path
from triage.library.memory import Memory
from triage.library.shadow import ShadowTool, shadow_sources
from triage.model.canonical import sha256_hex
from triage.model.decision import NodeId

if TYPE_CHECKING:
    from pathlib import Path

A, B = NodeId("obs_a"), NodeId("obs_b")
BOTH = sop(node("obs_a", {"true": ["obs_b"]}), node("obs_b"))
OTHER = GOOD + "\n# größer\n".encode()


def put_in_shadow(root: Path, name: NodeId, source: bytes = OTHER, **more: object) -> int:
    number = add_version(root, BOTH, name, source, maker="hand", at=AT, **more)  # type: ignore[arg-type]
    shadow_start(root, BOTH, name, number, by="ann", at=AT)
    return number


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in (A, B):
        add_active(tmp_path, BOTH, name)
    return tmp_path


def test_a_shadow_is_its_text_and_what_its_manifest_says(root: Path) -> None:
    number = put_in_shadow(root, B, reads_parents=[A])
    found = shadow_sources(root, BOTH)
    assert found.tools == {
        B: ShadowTool(
            node=B,
            version=number,
            sha256=sha256_hex(OTHER),
            text=OTHER.decode(),
            reads_parents=(A,),
        )
    }
    assert found.findings == ()
    shadow_stop(root, BOTH, B, by="ann", at=AT)
    assert shadow_sources(root, BOTH).tools == {}


def test_the_manifests_of_a_load_are_not_read_again(root: Path) -> None:
    put_in_shadow(root, A)
    memory = Memory()
    library = load_library(root, BOTH, memory=memory)
    assert not library.findings
    manifest_path(root, A).unlink()
    assert set(shadow_sources(root, BOTH, known=memory.latest).tools) == {A}
    assert shadow_sources(root, BOTH).tools == {}
    # Those of another library say nothing of this one.
    assert shadow_sources(root / "elsewhere", BOTH, known=memory.latest).tools == {}


@pytest.mark.parametrize(
    ("harm", "named"),
    [
        (lambda path: path.unlink(), "there is no such file"),
        (lambda path: path.write_bytes(GOOD), "is not what was approved"),
        (lambda path: path.write_bytes(b"x" * 9_999_999), "is larger than"),
    ],
)
def test_a_source_that_cannot_be_used_is_a_warning(root: Path, harm: object, named: str) -> None:
    number = put_in_shadow(root, A)
    put_in_shadow(root, B)
    assert callable(harm)
    harm(source_path(root, A, number))
    found = shadow_sources(root, BOTH)
    assert set(found.tools) == {B}
    (finding,) = found.findings
    assert finding.warning
    assert finding.where == A
    assert "is in shadow" in finding.problem
    assert named in finding.problem
    assert f"triage tools shadow {A} --stop" in finding.fix


def test_a_source_that_is_no_utf8_is_a_warning(root: Path) -> None:
    number = put_in_shadow(root, A)
    bad = GOOD + b"\n# \xff\n"
    source_path(root, A, number).write_bytes(bad)
    path = manifest_path(root, A)
    path.write_text(path.read_text().replace(sha256_hex(OTHER), sha256_hex(bad)))
    (finding,) = shadow_sources(root, BOTH).findings
    assert "is not UTF-8" in finding.problem


def test_a_manifest_that_cannot_be_used_is_for_the_load_to_tell(root: Path) -> None:
    put_in_shadow(root, A)
    manifest_path(root, A).write_text("rubbish")
    assert shadow_sources(root, BOTH) == ({}, ())
    odd = sop(node("a/../b"))
    assert shadow_sources(root, odd) == ({}, ())
