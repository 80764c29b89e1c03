from __future__ import annotations

from pathlib import Path

import pytest

from triage.errors import InvalidFiles
from triage.library.manifest import parse_manifest

DIGEST = "a" * 64
GOOD = f"""\
node = "obs_a"
active = 2
history = [
  {{at = 2026-01-01T00:00:00Z, verb = "add", version = 1, by = "h", note = ""}},
]

[[versions]]
version = 1
sha256 = "{DIGEST}"
sop_text_sha256 = "{DIGEST}"
status = "deprecated"
maker = "hand"
made_at = 2026-01-01T00:00:00Z

[[versions]]
version = 2
sha256 = "{DIGEST}"
sop_text_sha256 = "{DIGEST}"
status = "active"
maker = "hand"
made_at = 2026-01-01T00:00:00Z
approver = "ann"
approved_at = 2026-01-01T00:00:00Z
"""


def refused(text: str | bytes) -> list[tuple[int, str]]:
    body = text if isinstance(text, bytes) else text.encode()
    with pytest.raises(InvalidFiles) as caught:
        parse_manifest(body, file=Path("lib/obs_a/tool.toml"), node="obs_a")
    findings = caught.value.findings
    assert all(f.file == "lib/obs_a/tool.toml" and f.where == "obs_a" and f.fix for f in findings)
    return [(finding.line, finding.problem) for finding in findings]


def test_a_good_manifest() -> None:
    manifest = parse_manifest(GOOD.encode(), file=Path("tool.toml"), node="obs_a")
    assert manifest.active_version is not None
    assert manifest.active_version.version == manifest.active == 2
    assert [act.verb.value for act in manifest.history] == ["add"]


@pytest.mark.parametrize(
    ("old", "new", "line", "word"),
    [
        ("active = 2", "active = 2\nactve = 1", 3, "actve"),
        ("active = 2", "active = 3", 2, "not among"),
        ("active = 2", "active = true", 2, "integer"),
        ("active = 2", 'active = "2"', 2, "integer"),
        ("active = 2\n", "", 18, "not set"),
        ("active = 2", "active = 2\nshadow = 1", 12, "shadow"),
        ('node = "obs_a"', 'node = "obs_b"', 1, "obs_b"),
        ('status = "deprecated"', 'status = "old"', 11, "status"),
        ('status = "deprecated"', 'status = "active"', 11, "active is 2"),
        ("version = 2\n", "version = 1\n", 16, "twice"),
        ("version = 2\n", "version = 0\n", 16, "greater"),
        ('approver = "ann"\n', "", 19, "approved"),
        (f'sha256 = "{DIGEST}"\nsop', 'sha256 = "A1"\nsop', 9, "sha256"),
        ("made_at = 2026-01-01T00:00:00Z\n\n", "made_at = 2026-01-01T00:00:00\n\n", 13, "timezone"),
        ('maker = "hand"\n', "", 7, "maker"),
        ('maker = "hand"\n', 'maker = "hand"\ntrain_passed = 1\n', 13, "more train"),
        ('maker = "hand"\n', 'maker = "hand"\ntrain_total = -1\n', 13, "train_total"),
        ('verb = "add"', 'verb = "bless"', 4, "history.0.verb"),
        ("history = [", "history = [[", 7, "TOML"),
        ("active = 2", "active = 2\nactive = 2", 3, "TOML"),
    ],
)
def test_faults_name_their_line(old: str, new: str, line: int, word: str) -> None:
    assert old in GOOD
    faults = refused(GOOD.replace(old, new, 1))
    assert any(word in problem for _, problem in faults), faults
    assert line in [at for at, _ in faults], faults


def test_every_fault_is_told() -> None:
    text = GOOD.replace('maker = "hand"', 'makr = "hand"').replace("active = 2", "active = -1")
    assert len(refused(text)) >= 5


def test_bytes_that_are_not_text() -> None:
    assert refused(b'node = "a"\n# \xff\n')[0][0] == 2


def test_depth() -> None:
    assert refused("x = " + "[" * 5_000)
