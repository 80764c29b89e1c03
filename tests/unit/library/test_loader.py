from __future__ import annotations

import asyncio
import os
import sys
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit.library.building import AT, DYNAMIC, GOOD, add_active, node, sop
from triage.errors import ToolFailed, ToolFailure
from triage.library.catalogue import Library, Tool
from triage.library.lifecycle import add_version
from triage.library.loader import load_library
from triage.library.namespace import _import_allowed
from triage.model.canonical import sha256_hex
from triage.model.decision import NodeId
from triage.model.query import Answer, Query, Rows, Series
from triage.model.site import Site
from triage.model.verdict import Truth, Verdict

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

N = NodeId("obs_a")
ONE = sop(node("obs_a"))


@dataclass
class FakeContext:
    """Answers every query with the same value."""

    given: Answer
    asked: list[Query] = field(default_factory=list)
    params: Mapping[str, Any] = field(default_factory=dict)
    site: Site = field(default_factory=lambda: Site(name="s", zone="UTC", units={}, facts={}))
    entity: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    parents: Mapping[str, Verdict] = field(default_factory=dict)

    def answer(self, query: Query) -> Answer:
        self.asked.append(query)
        return self.given

    async def ask(self, query: Query) -> Answer:
        return self.answer(query)

    def localise(self, text: str, *, fold: int = 0) -> datetime:
        return datetime.fromisoformat(text).replace(fold=fold)

    def wall_clock(self, moment: datetime) -> datetime:
        return moment.replace(tzinfo=None)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "tools_lib"


def tool_of(library: Library) -> Tool:
    tool = library.get(N)
    assert isinstance(tool, Tool), tool
    return tool


def failure_of(library: Library) -> ToolFailed:
    failed = library.get(N)
    assert isinstance(failed, ToolFailed)
    assert library.broken[N] is failed
    assert N not in library.tools
    return failed


def put(root: Path, source: bytes) -> None:
    """Make `source` the active version, hash and all, without asking the policy."""
    add_active(root, ONE, N, GOOD)
    path = root / N / "v1.py"
    path.write_bytes(source)
    manifest = root / N / "tool.toml"
    text = manifest.read_text()
    manifest.write_text(text.replace(sha256_hex(GOOD), sha256_hex(source)))


def test_a_good_tool_loads_and_answers(root: Path) -> None:
    add_active(root, ONE, N)
    library = load_library(root, ONE)
    tool = tool_of(library)
    assert (tool.version, tool.sha256, tool.dynamic, tool.stale) == (
        1,
        sha256_hex(GOOD),
        False,
        False,
    )
    assert library.findings == ()
    assert library.broken == {}
    context = FakeContext(given=(Series({}, (1.0, 2.0), (9.0, 10.0)),))
    assert tool.queries is not None
    asked = tool.queries("w", AT, context)
    verdict = tool.evaluate("w", AT, context)
    assert verdict.value is Truth.TRUE
    assert verdict.explanation == "depth 9.5"
    assert context.asked == asked
    assert tool.evaluate.__code__.co_filename == "tools_lib/obs_a/v1.py"
    assert not [name for name in sys.modules if "obs_a" in name]


def test_a_dynamic_tool_loads_and_asks(root: Path) -> None:
    add_active(root, ONE, N, DYNAMIC, dynamic=True)
    tool = tool_of(load_library(root, ONE))
    assert tool.dynamic
    assert tool.queries is None
    context = FakeContext(given=({"n": 1},))
    verdict = asyncio.run(tool.evaluate("w", AT, context))
    assert verdict.value is Truth.TRUE
    assert context.asked == [Rows("tables", "select 1 as n")]


def test_tools_of_equal_source_share_no_namespace(root: Path) -> None:
    both = sop(node("obs_a", {"true": ["obs_b"]}), node("obs_b"))
    add_active(root, both, "obs_a")
    add_active(root, both, "obs_b")
    library = load_library(root, both)
    one, two = library.tools[N], library.tools[NodeId("obs_b")]
    assert one.evaluate is not two.evaluate
    assert one.evaluate.__globals__ is not two.evaluate.__globals__


def test_builtins_are_only_what_the_policy_allows(root: Path) -> None:
    add_active(root, ONE, N)
    builtins = tool_of(load_library(root, ONE)).evaluate.__globals__["__builtins__"]
    assert not {"open", "eval", "exec", "compile", "BaseException", "SystemExit"} & set(builtins)
    with pytest.raises(ImportError, match="os"):
        builtins["__import__"]("os")


@pytest.mark.parametrize("position", [0, len(GOOD) // 2, len(GOOD) - 1])
def test_one_changed_byte_is_tampering(root: Path, position: int) -> None:
    add_active(root, ONE, N)
    body = bytearray(GOOD)
    body[position] ^= 1
    path = root / N / "v1.py"
    path.write_bytes(bytes(body))
    library = load_library(root, ONE)
    failed = failure_of(library)
    assert failed.failure is ToolFailure.TAMPERED
    assert failed.detail.startswith("tools_lib/obs_a/v1.py")
    assert [(f.file, f.where, f.warning) for f in library.findings] == [(str(path), N, False)]


def test_tampered_code_is_not_run(root: Path, tmp_path: Path) -> None:
    add_active(root, ONE, N)
    witness = tmp_path / "ran"
    (root / N / "v1.py").write_text(f"open({str(witness)!r}, 'w')\n")
    assert failure_of(load_library(root, ONE)).failure is ToolFailure.TAMPERED
    assert not witness.exists()


def test_hashed_but_forbidden_code_is_not_run(root: Path, tmp_path: Path) -> None:
    witness = tmp_path / "ran"
    put(root, GOOD + f"open({str(witness)!r}, 'w')\n".encode())
    library = load_library(root, ONE)
    assert failure_of(library).failure is ToolFailure.TAMPERED
    assert library.findings[0].line == GOOD.count(b"\n") + 1
    assert not witness.exists()


def test_a_tool_that_raises_while_loading(root: Path) -> None:
    put(root, GOOD + b"\nBAD = 1 / 0\n")
    failed = failure_of(load_library(root, ONE))
    assert failed.failure is ToolFailure.RAISED
    assert "ZeroDivisionError" in failed.detail


@pytest.mark.parametrize(
    ("line", "failure"),
    [
        (b"\nevaluate = 3\n", ToolFailure.INVALID_RESULT),
        (b"\nqueries = 3\n", ToolFailure.INVALID_QUERIES),
    ],
)
def test_a_function_that_is_none(root: Path, line: bytes, failure: ToolFailure) -> None:
    put(root, GOOD + line)
    assert failure_of(load_library(root, ONE)).failure is failure


def test_no_library_at_all(root: Path) -> None:
    library = load_library(root, ONE)
    assert failure_of(library).failure is ToolFailure.MISSING
    assert [f.file for f in library.findings] == [str(root)]


def test_no_manifest(root: Path) -> None:
    (root / N).mkdir(parents=True)
    library = load_library(root, ONE)
    assert failure_of(library).failure is ToolFailure.MISSING
    assert library.findings[0].file == str(root / N / "tool.toml")
    assert not library.findings[0].warning


def test_no_source(root: Path) -> None:
    add_active(root, ONE, N)
    (root / N / "v1.py").unlink()
    library = load_library(root, ONE)
    assert failure_of(library).failure is ToolFailure.MISSING
    assert library.findings[0].file == str(root / N / "v1.py")


def test_only_a_candidate(root: Path) -> None:
    add_version(root, ONE, N, GOOD, maker="hand", at=AT)
    failed = failure_of(load_library(root, ONE))
    assert failed.failure is ToolFailure.MISSING
    assert "promote" in failed.detail


def test_all_retired(root: Path) -> None:
    add_version(root, ONE, N, GOOD, maker="hand", at=AT)
    manifest = root / N / "tool.toml"
    manifest.write_text(manifest.read_text().replace('"candidate"', '"retired"'))
    assert failure_of(load_library(root, ONE)).failure is ToolFailure.RETIRED


def test_a_manifest_that_is_no_manifest(root: Path) -> None:
    add_active(root, ONE, N)
    (root / N / "tool.toml").write_text("node = [\n")
    failed = failure_of(load_library(root, ONE))
    assert failed.failure is ToolFailure.TAMPERED
    assert "tool.toml" in failed.detail


def test_quarantined(root: Path) -> None:
    add_active(root, ONE, N)
    library = load_library(root, ONE, quarantined={sha256_hex(GOOD): "blocked for 2 s"})
    failed = failure_of(library)
    assert failed.failure is ToolFailure.QUARANTINED
    assert "blocked for 2 s" in failed.detail
    assert [finding.warning for finding in library.findings] == [True]


def test_a_tampered_tool_is_tampered_even_in_quarantine(root: Path) -> None:
    add_active(root, ONE, N)
    (root / N / "v1.py").write_bytes(GOOD + b"\n")
    library = load_library(root, ONE, quarantined={sha256_hex(GOOD): "slow"})
    assert failure_of(library).failure is ToolFailure.TAMPERED


def test_stale_text(root: Path) -> None:
    add_active(root, ONE, N)
    library = load_library(root, sop(node("obs_a", text="Now it asks something else.")))
    assert tool_of(library).stale
    assert [(f.warning, f.where) for f in library.findings] == [(True, N)]


def test_a_strange_folder_is_a_warning(root: Path) -> None:
    add_active(root, ONE, N)
    for name in ("obs_old", ".git", "__pycache__"):
        (root / name).mkdir()
    (root / "README.md").write_text("")
    library = load_library(root, ONE)
    tool_of(library)
    assert [(f.where, f.warning) for f in library.findings] == [("obs_old", True)]


def test_a_link_out_of_the_library_is_refused(root: Path, tmp_path: Path) -> None:
    add_active(root, ONE, N)
    outside = tmp_path / "v1.py"
    (root / N / "v1.py").rename(outside)
    (root / N / "v1.py").symlink_to(outside)
    library = load_library(root, ONE)
    assert failure_of(library).failure is ToolFailure.TAMPERED
    assert "leads out" in library.findings[0].problem


def test_a_folder_that_is_a_link_out_is_refused(root: Path, tmp_path: Path) -> None:
    add_active(root, ONE, N)
    (root / N).rename(tmp_path / "elsewhere")
    (root / N).symlink_to(tmp_path / "elsewhere")
    library = load_library(root, ONE)
    assert failure_of(library).failure is ToolFailure.TAMPERED
    assert "leads out" in library.findings[0].problem


def test_links_inside_and_to_the_library_are_followed(root: Path, tmp_path: Path) -> None:
    add_active(root, ONE, N)
    (root / N / "v1.py").rename(root / N / "source.py")
    (root / N / "v1.py").symlink_to("source.py")
    link = tmp_path / "link"
    link.symlink_to(root)
    tool_of(load_library(link, ONE))


def test_a_pipe_does_not_hang_the_load(root: Path) -> None:
    add_active(root, ONE, N)
    (root / N / "v1.py").unlink()
    os.mkfifo(root / N / "v1.py")
    assert failure_of(load_library(root, ONE)).failure is ToolFailure.TAMPERED


@pytest.mark.parametrize("name", ["..", "a/b", "", ".hidden", "a\0b", "x" * 300])
def test_a_node_that_is_no_folder_name(root: Path, name: str) -> None:
    root.mkdir()
    library = load_library(root, sop(node(name)))
    assert library.broken[NodeId(name)].failure is ToolFailure.MISSING


def test_one_bad_tool_leaves_the_others(root: Path) -> None:
    both = sop(node("obs_a", {"true": ["obs_b"]}), node("obs_b"))
    add_active(root, both, "obs_a")
    add_active(root, both, "obs_b")
    (root / "obs_b" / "v1.py").write_bytes(b"")
    library = load_library(root, both)
    tool_of(library)
    assert list(library.broken) == ["obs_b"]


def test_a_node_the_library_was_not_loaded_for(root: Path) -> None:
    add_active(root, ONE, N)
    found = load_library(root, ONE).get(NodeId("obs_other"))
    assert isinstance(found, ToolFailed)
    assert found.failure is ToolFailure.MISSING


def test_the_digest_follows_the_tools_and_nothing_else(root: Path, tmp_path: Path) -> None:
    a, b = node("obs_a", {"true": ["obs_b"]}), node("obs_b")
    both = sop(a, b)
    add_active(root, both, "obs_a")
    add_active(root, both, "obs_b")
    first = load_library(root, both).sha256
    assert load_library(root, sop(b, a)).sha256 == first
    root.rename(tmp_path / "moved")
    assert load_library(tmp_path / "moved", both).sha256 == first
    add_active(tmp_path / "moved", both, "obs_b", GOOD + b"\n")
    assert load_library(tmp_path / "moved", both).sha256 != first


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(source=st.binary(max_size=400))
def test_arbitrary_bytes_as_source_are_one_broken_tool(
    source: bytes, tmp_path_factory: pytest.TempPathFactory
) -> None:
    root = tmp_path_factory.mktemp("lib") / "tools_lib"
    put(root, source)
    failed = failure_of(load_library(root, ONE))
    assert failed.failure in (ToolFailure.TAMPERED, ToolFailure.RAISED)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(body=st.one_of(st.binary(max_size=300), st.text(max_size=300).map(str.encode)))
def test_arbitrary_bytes_as_manifest_are_one_broken_tool(
    body: bytes, tmp_path_factory: pytest.TempPathFactory
) -> None:
    root = tmp_path_factory.mktemp("lib") / "tools_lib"
    (root / N).mkdir(parents=True)
    (root / N / "tool.toml").write_bytes(body)
    assert failure_of(load_library(root, ONE)).failure is ToolFailure.TAMPERED


@pytest.mark.parametrize(
    "expression",
    [
        "timestamp.strftime('%Y-%m-%dT%H:%M:%SZ')",
        "format(timestamp, '%H:%M')",
        "datetime.strptime('2026-11-01', '%Y-%m-%d').isoformat()",
        "datetime.fromisoformat('2026-11-01T00:00:00Z').isoformat()",
        "json.dumps(json.loads('[1.5]'))",
        "re.sub('a', 'b', 'aa')",
        "str(decimal.Decimal('1.5'))",
    ],
)
def test_what_the_allowed_modules_import_themselves_is_theirs(root: Path, expression: str) -> None:
    source = f"""\
import decimal
import json
import re
from datetime import datetime

from triage.tool_api import Context, Query, Verdict, no_data


def queries(warehouse: str, timestamp: datetime, context: Context) -> list[Query]:
    return []


def evaluate(warehouse: str, timestamp: datetime, context: Context) -> Verdict:
    decimal, json, re
    return no_data({expression})
"""
    put(root, source.encode())
    verdict = tool_of(load_library(root, ONE)).evaluate("w", AT, FakeContext(given=()))
    assert verdict.explanation


def test_a_module_is_not_had_by_asking_as_c_does(root: Path) -> None:
    for name in ("time", "_strptime"):
        with pytest.raises(ImportError, match="tools may not import"):
            exec(f"import {name}", {"__builtins__": {"__import__": _import_allowed}})  # noqa: S102 - what a tool would do
