"""Large files are read in pieces, so that nothing keeps the interpreter to itself for long; what
comes of them does not depend on the pieces."""

from __future__ import annotations

import pytest

from triage.sop import reading, shape
from triage.sop.load import check_sop
from triage.sop.procedure import Sop

MANY = 25


def text(nodes: int = MANY, *, odd: str = "") -> str:
    """A chain of nodes; `odd` is put into the entry of the last but one."""
    lines = ["sop: large", "version: 3", "alarms: {al: [n0]}", "nodes:"]
    for index in range(nodes):
        lines += [f"  n{index}:", "    kind: root_cause", f"    text: Is it {index}?"]
        if index + 1 < nodes:
            lines.append(f"    on_true: [n{index + 1}]")
        if odd and index == nodes - 2:
            lines.append(f"    {odd}")
    return "\n".join([*lines, "actions: {}", ""])


def checked(source: str) -> tuple[Sop | None, list[str]]:
    sop, findings = check_sop(source.encode(), "sop.yaml")
    return sop, [str(finding) for finding in findings]


@pytest.fixture
def pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shape, "ENTRIES_AT_ONCE", 10)
    monkeypatch.setattr(reading, "SEARCHED_AT_ONCE", 64)


SOURCES = [
    text(),
    text(10),
    text(11),
    text(20),
    text(odd="kind_of: thing"),
    text(odd="sources: [7]"),
    text(odd="on_false: [nowhere]"),
    text(odd="on_false: n0"),
    text().replace("version: 3", "version: three"),
    text().replace("  n7:", "  7n:"),
    text() + "\x07",
    text().replace("Is it 20?", "Is it \x00?"),
    "\ufeff" + text(),
]


@pytest.mark.parametrize("source", SOURCES, ids=range(len(SOURCES)))
def test_pieces_make_no_difference(source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = checked(source)
    monkeypatch.setattr(shape, "ENTRIES_AT_ONCE", 10)
    monkeypatch.setattr(reading, "SEARCHED_AT_ONCE", 64)
    assert checked(source) == whole


def test_a_large_file_keeps_every_entry_in_order(pieces: None) -> None:
    sop, findings = checked(text())
    assert findings == []
    assert sop is not None
    assert list(sop.nodes) == [f"n{index}" for index in range(MANY)]
    assert [node.text for node in sop.nodes.values()][-1] == f"Is it {MANY - 1}?"


def test_a_fault_in_a_late_piece_has_its_line(pieces: None) -> None:
    source = text(odd="kind_of: thing")
    line = source.splitlines().index("    kind_of: thing") + 1
    sop, findings = checked(source)
    assert sop is None
    assert [finding for finding in findings if finding.startswith(f"sop.yaml:{line}: n23:")]


def test_a_control_character_in_a_late_piece_has_its_line(pieces: None) -> None:
    _, findings = checked(text() + "\x07")
    assert len(findings) == 1
    assert findings[0].startswith(f"sop.yaml:{text().count(chr(10)) + 1}: the control character")
