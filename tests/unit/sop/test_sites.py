"""The sites file: profiles, and its faults with their lines."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from tests.unit.sop.sample import SOUND
from triage.errors import InvalidFiles
from triage.model.site import Site
from triage.sop.load import parse_sop
from triage.sop.sites import check_sites, load_sites, no_sites, parse_sites

SOP = parse_sop(SOUND.encode(), "sop.yaml")

SITES = """\
defaults:
  zone: Europe/Paris
  units: {pressure: bar}
  params: {strict: false}
  facts: {pumps: 2, shift: {start: 6}}
sites:
  FC1:
    zone: Europe/Berlin
    aliases: [fc-1, Hall 1]
    units: {flow: l/min}
    params: {low_bar: 6}
    facts: {pumps: 3}
    assets:
      P1: {parent: Row 1}
      Row 1: {parent: Hall}
      P2: {}
  FC2: {}
"""


def test_profiles_merge_defaults_site_and_sop() -> None:
    sites = parse_sites(SITES.encode(), "sites.yaml", SOP)
    assert sites.sha256 == hashlib.sha256(SITES.encode()).hexdigest()
    first = sites.profile("FC1")
    assert first.known
    assert first.site == Site(
        name="FC1",
        zone="Europe/Berlin",
        units={"pressure": "bar", "flow": "l/min"},
        facts={"pumps": 3, "shift": {"start": 6}},
    )
    assert first.params == {"low_bar": 6, "strict": False}
    assert first.within("P1", "Hall")
    assert not first.within("P2", "Hall")
    assert sites.profile("fc-1") is first
    assert sites.profile("Hall 1") is first
    second = sites.profile("FC2")
    assert (second.site.zone, second.params["low_bar"]) == ("Europe/Paris", 5.3)
    assert second.parents == {}


COMMON_ASSETS = """\
defaults:
  assets:
    P1: {parent: Row 1}
    P2: {parent: Row 1}
sites:
  FC1: {}
  FC2:
    assets: {P1: {parent: Row 9}, Row 1: {parent: Hall}}
"""


def test_assets_that_every_site_has() -> None:
    sites = parse_sites(COMMON_ASSETS.encode(), "sites.yaml", SOP)
    first, second = sites.profile("FC1"), sites.profile("FC2")
    assert first.within("P1", "Row 1")
    assert not first.within("P1", "Hall")
    assert (second.within("P1", "Row 9"), second.within("P1", "Row 1")) == (True, False)
    assert second.within("P2", "Hall")
    assert sites.profile("elsewhere").within("P1", "Row 1")


def test_a_loop_is_found_once_where_it_is_closed() -> None:
    closed = COMMON_ASSETS.replace("Row 1: {parent: Hall}", "Row 1: {parent: P2}")
    _, findings = check_sites(closed.encode(), "sites.yaml", SOP)
    assert [(finding.line, finding.problem) for finding in findings] == [
        (8, "the asset lies in itself: P2 in Row 1 in P2")
    ]


def test_a_loop_that_every_site_has_is_found_once() -> None:
    looped = COMMON_ASSETS.replace("P2: {parent: Row 1}", "Row 1: {parent: P1}")
    _, findings = check_sites(looped.encode(), "sites.yaml", SOP)
    common = [finding for finding in findings if finding.line < 5]
    assert len(common) == 1


def test_an_unknown_site_has_the_defaults_and_keeps_its_name() -> None:
    sites = parse_sites(SITES.encode(), "sites.yaml", SOP)
    profile = sites.profile("elsewhere")
    assert not profile.known
    assert profile.site.name == "elsewhere"
    assert profile.site.zone == "Europe/Paris"
    assert profile.params == {"low_bar": 5.3, "strict": False}


def test_without_a_file_every_site_is_unknown() -> None:
    sites = no_sites(SOP)
    assert sites.sha256 == ""
    profile = sites.profile("x")
    assert (profile.known, profile.site.name, profile.site.zone) == (False, "x", "UTC")
    assert profile.params == {"low_bar": 5.3, "strict": True}


@pytest.mark.parametrize(
    ("old", "new", "line", "where", "problem", "fix"),
    [
        (
            "Europe/Berlin",
            "Europe/Berlln",
            8,
            "FC1",
            "`Europe/Berlln` is not a time zone",
            "did you mean `Europe/Berlin`?",
        ),
        ("Europe/Paris", "../../etc/passwd", 2, "", "is not a time zone", "IANA"),
        ("Europe/Paris", "Europe", 2, "", "is not a time zone", ""),
        ("Europe/Paris", "localtime", 2, "", "is not a time zone", ""),
        ("Europe/Paris", '""', 2, "", "is not a time zone", ""),
        ("Europe/Paris", "x" * 5000, 2, "", "is not a time zone", ""),
        ("Europe/Paris", "1", 2, "", "`zone` must be text", "quotes"),
        (
            "low_bar: 6",
            "lowbar: 6",
            11,
            "FC1",
            "the SOP has no param `lowbar`",
            "did you mean `low_bar`?",
        ),
        (
            "low_bar: 6",
            "low_bar: 11",
            11,
            "FC1",
            "`low_bar`: 11 is above the greatest value 10",
            "see `params` in sop.yaml",
        ),
        (
            "low_bar: 6",
            "low_bar: '6'",
            11,
            "FC1",
            "`low_bar`: must be a number as in the SOP, not text",
            "",
        ),
        ("low_bar: 6", "strict: 1", 11, "FC1", "must be `true` or `false` as in the SOP", ""),
        ("low_bar: 6", "low_bar: true", 11, "FC1", "must be a number as in the SOP", ""),
        ("strict: false", "low_bar: 0", 4, "", "0 is below the least value 1", ""),
        ("  FC2: {}", "  FC1: {}", 17, "FC1", "the site FC1 is given twice, on lines 7 and 17", ""),
        (
            "  FC2: {}",
            "  FC2: {aliases: fc-1}",
            17,
            "FC2",
            "the alias `fc-1` is a site's name or alias already, on line 9",
            "remove",
        ),
        ("  FC2: {}", "  FC2: {aliases: [FC1]}", 17, "FC2", "on line 7", ""),
        ("  FC2: {}", "  FC2: {aliases: [x, x]}", 17, "FC2", "`x` is a site's name or alias", ""),
        (
            "Row 1: {parent: Hall}",
            "Row 1: {parent: P1}",
            14,
            "FC1",
            "lies in itself: P1 in Row 1 in P1",
            "parents",
        ),
        ("P2: {}", "P2: {parent: P2}", 16, "FC1", "P2 in P2", ""),
        (
            "P2: {}",
            "P2: {parnt: Hall}",
            16,
            "FC1",
            "the key `parnt` is unknown",
            "did you mean `parent`?",
        ),
        (
            "    zone: Europe/Berlin",
            "    zon: Europe/Berlin",
            8,
            "FC1",
            "the key `zon` is unknown",
            "`zone`?",
        ),
        ("units: {flow: l/min}", "units: {flow: 7}", 10, "FC1", "`flow` must be text", ""),
        ("defaults:\n", "default:\n", 1, "", "the key `default` is unknown", "`defaults`?"),
    ],
)
def test_every_fault_has_its_line_its_place_and_a_fix(
    old: str, new: str, line: int, where: str, problem: str, fix: str
) -> None:
    assert SITES.count(old) == 1
    sites, findings = check_sites(SITES.replace(old, new).encode(), "sites.yaml", SOP)
    assert sites is None
    matching = [f for f in findings if (f.line, f.where) == (line, where) and problem in f.problem]
    assert len(matching) == 1, "\n".join(map(str, findings))
    assert matching[0].fix
    assert fix in matching[0].fix


def test_all_faults_are_found_at_once() -> None:
    text = SITES.replace("Europe/Berlin", "Mars").replace("low_bar: 6", "lowbar: 6")
    text = text.replace("FC2: {}", "FC2: {zone: Venus, color: red}")
    with pytest.raises(InvalidFiles) as refused:
        parse_sites(text.encode(), "sites.yaml", SOP)
    assert [f.line for f in refused.value.findings] == [8, 11, 17]


def test_files(tmp_path: Path) -> None:
    with pytest.raises(InvalidFiles, match="there is no such file"):
        load_sites(tmp_path / "none.yaml", SOP)
    path = tmp_path / "sites.yaml"
    path.write_text(SITES)
    assert load_sites(path, SOP).profile("FC1").known
    path.write_bytes(b"sites: {}\n\xff")
    with pytest.raises(InvalidFiles, match=r"sites\.yaml:2: the byte 0xff"):
        load_sites(path, SOP)
