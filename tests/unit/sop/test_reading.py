"""What is refused before a file has a shape: encoding, syntax, size, and YAML's traps."""

from __future__ import annotations

from pathlib import Path

import pytest

from triage.errors import InvalidFiles
from triage.sop import events, reading
from triage.sop.load import load_sop
from triage.sop.reading import locate

BOMB = 'a: &a ["lol","lol","lol","lol","lol","lol","lol","lol","lol"]\n' + "".join(
    f"{n}: &{n} [{','.join([f'*{p}'] * 9)}]\n" for p, n in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    ("body", "line", "problem"),
    [
        pytest.param(BOMB.encode(), 1, "the anchor `&a` is not allowed", id="billion laughs"),
        pytest.param(b"a: 1\nb: *x\n", 2, "the alias `*x` is not allowed", id="alias"),
        pytest.param(b"a: 1\nb: &x 2\n", 2, "the anchor `&x` is not allowed", id="anchored text"),
        pytest.param(b"a: 1\n*x : 2\n", 2, "the alias `*x` is not allowed", id="alias as key"),
        pytest.param(b"a: 1\nb: &x {c: 1}\n", 2, "the anchor `&x`", id="anchored mapping"),
        pytest.param(b"[" * 100_000, 1, "nested more than 32 deep", id="100,000 lists"),
        pytest.param(b"{" * 100_000, 1, "nested more than 32 deep", id="100,000 mappings"),
        pytest.param(b"- " * 100_000, 1, "nested more than 32 deep", id="block lists"),
        pytest.param(
            b"\n".join(b" " * n + b"a:" for n in range(40)),
            33,
            "nested more than 32 deep",
            id="depth",
        ),
        pytest.param(b"a: 1\nb: \xff\n", 2, "0xff at offset 8 is not UTF-8", id="not UTF-8"),
        pytest.param("a: 1\n".encode("utf-16"), 1, "is not UTF-8", id="UTF-16"),
        pytest.param(b"a: \xed\xa0\x80\n", 1, "is not UTF-8", id="surrogate"),
        pytest.param(b"a: 1\nb: x\x00y\n", 2, "a NUL byte", id="NUL"),
        pytest.param(b"a: 1\nb: \x1b[31m\n", 2, "U+001B", id="escape"),
        pytest.param(b'a: 1\nb: "\\x1b[31m"\n', 2, "U+001B", id="escape spelled out"),
        pytest.param(b'a: 1\nb: "\\0"\n', 2, "U+0000", id="NUL spelled out"),
        pytest.param(b"a:\n\tb: 1\n", 2, "a tab is used to indent", id="tab"),
        pytest.param(b"a:\n  b: 1\n\tc: 1\n", 3, "a tab is used to indent", id="tab after spaces"),
        pytest.param(b"a: 1\nb: c: d\n", 2, "is not YAML", id="two colons"),
        pytest.param(b"a: 1\nb: [c\n", 3, "is not YAML", id="open bracket"),
        pytest.param(b"a: 'b\n", 2, "begun on line 1", id="open quote"),
        pytest.param(b"", 1, "the file is empty", id="empty"),
        pytest.param(b"# nothing\n\n", 1, "the file is empty", id="comments only"),
        pytest.param(b"# one\n- a\n- b\n", 2, "must be a mapping at the top", id="list at top"),
        pytest.param(b"just words\n", 1, "must be a mapping at the top", id="text at top"),
        pytest.param(b"a: 1\n---\nb: 2\n", 2, "a second document begins here", id="two documents"),
        pytest.param(b"a: 1\nb: !!python/name:os.system x\n", 2, "the tag", id="tag"),
        pytest.param(b"a: 1\nb: !!python/name:os.system {}\n", 2, "the tag", id="tagged mapping"),
        pytest.param(b"a: 1\nb: ! x\n", 2, "the tag `!`", id="lone tag"),
        pytest.param(b"a: 1\n<<: {b: 1}\n", 2, "the merge key", id="merge key"),
        pytest.param(b"a: 1\n? [b]\n: c\n", 2, "used as a key", id="list as key"),
        pytest.param(b"a: 1\n1: b\n", 2, "`1` is read as a number", id="number as key"),
        pytest.param(b"a: 1\n~: b\n", 2, "`~` is read as nothing", id="null as key"),
        pytest.param(b"a: 1\nb: 2\na: 3\n", 3, "given twice, on lines 1 and 3", id="duplicate key"),
        pytest.param(b"a: " + b"9" * 100_000, 1, "does not fit 64 bits", id="huge integer"),
        pytest.param(b"a: 9223372036854775808", 1, "does not fit 64 bits", id="2**63"),
        pytest.param(b"a: 0x" + b"f" * 100_000, 1, "does not fit 64 bits", id="huge hexadecimal"),
        pytest.param(b"a: 1e999", 1, "is not a finite number", id="huge float"),
        pytest.param(b"a: -.inf", 1, "is not a finite number", id="infinity"),
        pytest.param(b"a: .NaN", 1, "is not a finite number", id="NaN"),
    ],
)
def test_refusals_name_the_line(body: bytes, line: int, problem: str) -> None:
    _, findings = locate(body, "f.yaml", {})
    assert [finding.line for finding in findings] == [line]
    assert problem in findings[0].problem
    assert findings[0].fix
    assert findings[0].file == "f.yaml"
    assert not findings[0].warning


def test_scalars_are_read_as_yaml_1_2_core() -> None:
    located, findings = locate(
        b"""
        words: [no, yes, on, off, n, 1_000, 1.2.3, 2026-01-02, 12:30:00, -, +, '.', "true", '7', a~]
        booleans: [true, True, FALSE]
        nothing: [~, null, NULL, ]
        integers: [7, -7, +7, 007, 0o17, 0x1F, 9223372036854775807, -9223372036854775808]
        floats: [1.5, .5, 1., -1e3, 1E-2]
        """,
        "f.yaml",
        {},
    )
    assert findings == []
    assert located is not None
    words = located.data["words"]
    assert words[:5] == ["no", "yes", "on", "off", "n"]
    assert all(isinstance(word, str) for word in words)
    assert located.data["booleans"] == [True, True, False]
    assert located.data["nothing"] == [None, None, None]
    assert located.data["integers"] == [7, -7, 7, 7, 15, 31, 2**63 - 1, -(2**63)]
    assert all(type(number) is int for number in located.data["integers"])
    assert located.data["floats"] == [1.5, 0.5, 1.0, -1000.0, 0.01]
    assert all(type(number) is float for number in located.data["floats"])


def test_positions_are_of_keys_and_items_from_one() -> None:
    located, _ = locate(b"\xef\xbb\xbfa:\n  b: [x,\n      y]\n  c:\n    - d: 1\n", "f.yaml", {})
    assert located is not None
    assert located.positions[("a",)][0] == 1
    assert located.positions[("a", "b")] == (2, 3)
    assert located.positions[("a", "b", 1)] == (3, 7)
    assert located.positions[("a", "c", 0, "d")] == (5, 7)
    assert located.line(("a", "c", 0, "missing", "deeper")) == 5
    assert located.line(("missing",)) == 1


@pytest.mark.parametrize(
    ("key", "fix"), [("true", "on_true"), ("False", "on_false"), ("null", "on_no_data")]
)
def test_a_boolean_key_is_told_its_name(key: str, fix: str) -> None:
    body = f"nodes:\n  obs:\n    {key}: [a]\n".encode()
    located, findings = locate(body, "f.yaml", {"nodes": "node"})
    assert located is not None
    assert [(f.line, f.where, f.fix) for f in findings] == [(3, "obs", f"write `{fix}`")]


def test_the_first_of_two_equal_keys_counts_and_the_second_leaves_no_trace() -> None:
    located, findings = locate(
        b"nodes:\n  x: {a: 1}\n  y: 2\n  x:\n    b: [1]\n    b: 2\n", "f.yaml", {"nodes": "node"}
    )
    assert located is not None
    assert located.data == {"nodes": {"x": {"a": 1}, "y": 2}}
    assert ("nodes", "x", "b") not in located.positions
    assert str(findings[0]) == (
        "f.yaml:4: x: the node x is given twice, on lines 2 and 4 — rename one of them, "
        "or remove it"
    )
    assert findings[1].line == 6


def test_size_and_number_of_parts_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    _, findings = locate(b"#" * (reading.MAX_BYTES + 1), "f.yaml", {})
    assert "larger than 8 MiB" in findings[0].problem
    monkeypatch.setattr(events, "MAX_EVENTS", 100)
    _, findings = locate(b"a:\n" + b"- b\n" * 200, "f.yaml", {})
    assert findings[0].problem == "has more than 100 parts"
    assert findings[0].line == 97  # four events stand before the first item


def test_32_levels_are_allowed() -> None:
    located, findings = locate(b"a: " + b"[" * 31 + b"]" * 31, "f.yaml", {})
    assert located is not None
    assert findings == []


def test_files_that_cannot_be_read_are_findings(tmp_path: Path) -> None:
    with pytest.raises(InvalidFiles, match="there is no such file"):
        load_sop(tmp_path / "none.yaml")
    with pytest.raises(InvalidFiles, match="is a directory"):
        load_sop(tmp_path)
    with pytest.raises(InvalidFiles, match="cannot be read"):
        load_sop(tmp_path / "none\0.yaml")
    with pytest.raises(InvalidFiles, match="cannot be read"):
        load_sop(tmp_path / ("n" * 1000))


def test_a_file_without_permission_is_a_finding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)  # root may read everything, so no mode would do
    with pytest.raises(InvalidFiles, match="may not be read"):
        load_sop(tmp_path / "sop.yaml")
