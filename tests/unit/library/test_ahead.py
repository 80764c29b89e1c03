"""Sources checked in processes of their own: the same verdicts, or none."""

from __future__ import annotations

import io
import json
import marshal
from typing import TYPE_CHECKING

import pytest

from tests.unit.library.building import DYNAMIC, GOOD, add_active, node, sop
from triage.errors import ToolFailed, ToolFailure
from triage.library import ahead, linted
from triage.library.ahead import Ahead, begin, serve
from triage.library.loader import load_library
from triage.model.canonical import sha256_hex

if TYPE_CHECKING:
    from pathlib import Path

NAMES = ["obs_a", "obs_b", "obs_c", "obs_d"]
SOP = sop(*(node(name) for name in NAMES))
WARNED = GOOD.replace(b"    series = ", b"    while True:\n        pass\n    series = ")
FORBIDDEN = GOOD + b"\nimport os\n"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A good tool, one with a warning, a dynamic one, and one that was never linted."""
    root = tmp_path / "tools_lib"
    add_active(root, SOP, "obs_a")
    add_active(root, SOP, "obs_b", WARNED)
    add_active(root, SOP, "obs_c", DYNAMIC, dynamic=True)
    add_active(root, SOP, "obs_d")
    put(root, "obs_d", FORBIDDEN)
    monkeypatch.setattr(ahead, "WORTH_IT", 1)
    monkeypatch.setattr(ahead, "BATCH", 2)
    return root


@pytest.fixture
def passed(tmp_path: Path) -> Path:
    """Where there are no verdicts yet."""
    return tmp_path / "linted"


def put(root: Path, name: str, source: bytes) -> None:
    (root / name / "v1.py").write_bytes(source)
    file = root / name / "tool.toml"
    file.write_text(file.read_text().replace(sha256_hex(GOOD), sha256_hex(source)))


def test_what_comes_of_it_is_what_the_loader_makes_itself(
    root: Path, passed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = begin(root, passed=passed)
    results = begun.results()
    assert set(results) == {
        (sha256_hex(GOOD), False),
        (sha256_hex(WARNED), False),
        (sha256_hex(DYNAMIC), True),
        (sha256_hex(FORBIDDEN), False),
    }
    helped = load_library(root, SOP, ahead=begin(root, passed=passed))
    monkeypatch.setattr(ahead, "WORTH_IT", 1_000)
    alone = load_library(root, SOP)
    assert helped.findings == alone.findings
    assert helped.sha256 == alone.sha256
    assert set(helped.tools) == set(alone.tools) == {"obs_a", "obs_b", "obs_c"}
    for name, tool in helped.tools.items():
        assert tool.evaluate.__code__ == alone.tools[name].evaluate.__code__
        assert tool.evaluate.__code__.co_filename == f"tools_lib/{name}/v1.py"


def test_a_loader_without_help_begins_it(root: Path) -> None:
    library = load_library(root, SOP)
    assert set(library.tools) == {"obs_a", "obs_b", "obs_c"}


def test_a_file_that_changes_afterwards_is_refused(root: Path, passed: Path) -> None:
    begun = begin(root, passed=passed)
    begun.results()
    (root / "obs_a" / "v1.py").write_bytes(GOOD + b"\n")
    failed = load_library(root, SOP, ahead=begun).broken["obs_a"]  # type: ignore[index]  # a NodeId
    assert isinstance(failed, ToolFailed)
    assert failed.failure is ToolFailure.TAMPERED


def test_processes_that_die_cost_nothing_but_time(
    root: Path, passed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = begin(root, passed=passed)
    begun.close()
    assert set(load_library(root, SOP, ahead=begun).tools) == {"obs_a", "obs_b", "obs_c"}
    monkeypatch.setattr("sys.executable", "/bin/false")
    assert set(load_library(root, SOP, ahead=begin(root, passed=passed)).tools) == {
        "obs_a",
        "obs_b",
        "obs_c",
    }
    monkeypatch.setattr("sys.executable", str(root / "no such program"))
    assert set(load_library(root, SOP, ahead=begin(root, passed=passed)).tools) == {
        "obs_a",
        "obs_b",
        "obs_c",
    }


def test_a_small_library_starts_no_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.executable", "/bin/false")
    assert Ahead(tmp_path, ["a"]).start().results() == {}
    assert begin(tmp_path / "nothing", passed=tmp_path / "linted").results() == {}


def asked(root: Path, *batches: list[str]) -> list[list[object]]:
    """What the process answers, in this one."""
    answers = io.BytesIO()
    serve([json.dumps(batch).encode() for batch in batches], answers, root)
    answers.seek(0)
    found = []
    while length := int.from_bytes(answers.read(ahead.LENGTH_BYTES), "big"):
        found.append(marshal.loads(answers.read(length)))  # noqa: S302 - our own
    return found


def test_the_hash_is_of_the_bytes_whatever_the_manifest_says(root: Path) -> None:
    other = GOOD + b"\n"
    (root / "obs_a" / "v1.py").write_bytes(other)
    [[entry]] = asked(root, ["obs_a"])
    assert isinstance(entry, tuple)
    assert entry[:2] == (sha256_hex(other), False)


def test_what_is_not_in_order_is_left_to_the_loader(root: Path) -> None:
    (root / "obs_a" / "tool.toml").write_text("active = [")
    (root / "obs_b" / "tool.toml").write_text("active = 7\nversions = []\n")
    (root / "obs_c" / "v1.py").unlink()
    assert asked(root, ["obs_a", "obs_b"], ["obs_c", "..", "nowhere"]) == [[], []]


def test_equal_sources_are_told_once(root: Path) -> None:
    add_active(root, SOP, "obs_b", GOOD)
    first, second = asked(root, ["obs_a"], ["obs_b"])
    assert (len(first), len(second)) == (1, 0)


def test_a_library_that_was_loaded_before_starts_no_process(
    root: Path, passed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    linted.write(passed, [linted.key(sha256_hex(GOOD), False)])
    monkeypatch.setattr(ahead, "WORTH_IT", 0)
    assert begin(root, passed=passed).results() == {}
    passed.write_text("")
    assert begin(root, passed=passed).results() != {}
