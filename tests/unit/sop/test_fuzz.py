"""Whatever the bytes, the answer is a procedure or findings."""

from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit.sop.sample import SOUND
from tests.unit.sop.test_sites import SITES, SOP
from triage.errors import Finding, InvalidFiles
from triage.sop.load import check_sop, parse_sop
from triage.sop.sites import check_sites, parse_sites

# No test may depend on how fast the machine is.
thorough = settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])

FRAGMENTS = [
    b"[", b"]", b"{", b"}", b":", b": ", b"- ", b"\n", b"\t", b"'", b'"', b"&a ", b"*a", b"? ",
    b"!!str ", b"true", b"null", b"~", b"\x00", b"\xff", b"\xc3", b"9" * 30, b"1e999", b".nan",
    b"|\n", b">-\n", b"<<: ", b"%YAML 1.1\n", b"---\n", b"...\n", b"#", b"\xe2\x80\xa8",
    b"\xef\xbb\xbf", b"on_true: [rc_leak]\n", b"kind: constraint\n", b"cost: high", b"nodes:\n",
    b"  rc_leak:\n",
]  # fmt: skip


@st.composite
def mutated(draw: st.DrawFn, sound: bytes) -> bytes:
    """`sound` after a few cuts, repeats, swaps and insertions."""
    body = sound
    for _ in range(draw(st.integers(1, 6))):
        start = draw(st.integers(0, len(body)))
        end = min(len(body), start + draw(st.integers(0, 60)))
        match draw(st.sampled_from(["cut", "repeat", "insert", "move"])):
            case "cut":
                body = body[:start] + body[end:]
            case "repeat":
                body = body[:end] + body[start:end] + body[end:]
            case "insert":
                body = body[:start] + draw(st.sampled_from(FRAGMENTS)) + body[start:]
            case _:
                rest = body[:start] + body[end:]
                at = draw(st.integers(0, len(rest)))
                body = rest[:at] + body[start:end] + rest[at:]
    return body


def examine(findings: list[Finding], body: bytes, *, accepted: bool) -> None:
    assert accepted == all(finding.warning for finding in findings)
    # YAML counts a few more characters as line ends than an editor does.
    lines = len(body.decode("utf-8", "replace").splitlines()) + 1
    for finding in findings:
        assert 1 <= finding.line <= lines
        assert finding.problem
        assert finding.fix
        assert "\n" not in str(finding)


def attempt_sop(body: bytes) -> None:
    sop, findings = check_sop(body, "f.yaml")
    examine(findings, body, accepted=sop is not None)
    if sop is not None:
        assert parse_sop(body, "f.yaml") == sop
        return
    with pytest.raises(InvalidFiles) as refused:
        parse_sop(body, "f.yaml")
    assert list(refused.value.findings) == findings


def attempt_sites(body: bytes) -> None:
    sites, findings = check_sites(body, "f.yaml", SOP)
    examine(findings, body, accepted=sites is not None)
    if sites is not None:
        assert parse_sites(body, "f.yaml", SOP) == sites
        return
    with pytest.raises(InvalidFiles) as refused:
        parse_sites(body, "f.yaml", SOP)
    assert list(refused.value.findings) == findings


@thorough
@given(st.binary(max_size=300))
def test_arbitrary_bytes(body: bytes) -> None:
    attempt_sop(body)
    attempt_sites(body)


@thorough
@given(st.lists(st.sampled_from(FRAGMENTS) | st.binary(max_size=3), max_size=40))
def test_arbitrary_tokens(parts: list[bytes]) -> None:
    body = b"".join(parts)
    attempt_sop(body)
    attempt_sites(body)


@thorough
@given(mutated(SOUND.encode()))
def test_mutated_sops(body: bytes) -> None:
    attempt_sop(body)


@thorough
@given(mutated(SITES.encode()))
def test_mutated_sites(body: bytes) -> None:
    attempt_sites(body)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)


SECTIONS = ("sop", "version", "alarms", "aliases", "params", "nodes", "actions")


@thorough
@given(st.dictionaries(st.sampled_from(SECTIONS), VALUES))
def test_arbitrary_values_in_the_right_places(data: dict[str, object]) -> None:
    # JSON is YAML's flow form; NaN and Infinity become words.
    attempt_sop(json.dumps(data, ensure_ascii=False).encode("utf-8", "replace"))
