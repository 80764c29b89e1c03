"""The growth of the SOP is measured on a project that really is many times the one it is made
from. How fast is for the benchmark to say, not here."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from bench.growth.multiply import Sources, copies_for, multiply, prefix
from bench.growth.sop import measure_sop
from triage.library.loader import load_library
from triage.library.manifest import read_manifest
from triage.sop.load import check_sop, load_sop

HOST = Path(__file__).parents[2] / "examples" / "host"
FIGURES = (
    "sop_100x_ratio",
    "sop_100x_ratio_spread",
    "decide_single_p50_us",
    "decide_100x_p50_us",
    *(
        name + kind
        for name in (
            "start_s_4400",
            "start_cpu_s_4400",
            "start_resident_mb_4400",
            "start_s_4400_cold",
            "start_cpu_s_4400_cold",
        )
        for kind in ("", "_shared")
    ),
    "reload_stall_ms_4400",
    "no_reload_stall_ms_4400",
    "reload_cpu_s_4400",
    "reload_resident_mb_4400",
)


def test_the_figures_are_there() -> None:
    told: list[tuple[int, int]] = []
    figures = measure_sop(
        HOST, lambda done, of: told.append((done, of)), nodes=85, pairs=2, starts=1, reloads=1
    )
    for name in FIGURES:
        assert type(figures[name]) in {int, float}, name
        assert math.isfinite(figures[name]), name
        assert figures[name] > 0, name
    assert (figures["copies"], figures["nodes"], figures["pairs"]) == (5, 85, 2)
    assert [done for done, _ in told] == list(range(1, told[-1][1] + 1))


@pytest.mark.parametrize("sources", ["shared", "distinct"])
def test_a_multiplied_project_is_sound(tmp_path: Path, sources: Sources) -> None:
    made = multiply(HOST, tmp_path, 3, sources)
    sop, findings = check_sop(made.sop.read_bytes(), "sop.yaml")
    one = load_sop(HOST / "sop.yaml")
    assert sop is not None
    assert findings == []
    assert made.nodes == len(sop.nodes) == 3 * len(one.nodes)
    assert len(sop.alarms) == 3 * len(one.alarms)
    assert (sop.actions.keys(), sop.params) == (one.actions.keys(), one.params)
    library = load_library(made.library, sop)
    assert library.findings == ()
    assert library.tools.keys() == sop.nodes.keys()
    hashes = {tool.sha256 for tool in library.tools.values()}
    assert len(hashes) == (len(one.nodes) if sources == "shared" else made.nodes)


def test_a_copy_walks_among_its_own(tmp_path: Path) -> None:
    made = multiply(HOST, tmp_path, 3)
    one, many = load_sop(HOST / "sop.yaml"), load_sop(made.sop)
    for copy in range(3):
        before = prefix(copy)
        for name, node in one.nodes.items():
            copied = many.nodes[type(name)(before + name)]
            assert copied.text == node.text
            assert copied.targets == {
                word: tuple(before + t if t in one.nodes else t for t in targets)
                for word, targets in node.targets.items()
            }
            entry = read_manifest(made.library, copied.node)[0].active_version
            original = read_manifest(HOST / "tools_lib", name)[0].active_version
            assert entry is not None
            assert original is not None
            assert entry.reads_parents == tuple(before + p for p in original.reads_parents)


def test_copies_come_close_to_the_wanted_number() -> None:
    assert copies_for(HOST, 4_400) == 259
    assert copies_for(HOST, 1) == 1
