"""The SOP file: what a sound one becomes."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from tests.unit.sop.sample import SOUND, changed, errors_of
from triage.errors import InvalidFiles
from triage.model.decision import ActionId, Cost, NodeId, NodeKind
from triage.sop.load import check_sop, load_sop, parse_sop
from triage.sop.procedure import Param


def test_a_sound_file_becomes_a_procedure() -> None:
    sop, findings = check_sop(SOUND.encode(), "sop.yaml")
    assert findings == []
    assert sop is not None
    assert (sop.name, sop.version, sop.file) == ("pump-house", 3, "sop.yaml")
    assert sop.sha256 == hashlib.sha256(SOUND.encode()).hexdigest()
    assert sop.entry("al_pressure_low") == ("obs_pressure_low",)
    assert sop.entry("PressureLow") == ("obs_pressure_low",)
    assert sop.entry("Pressure low (old)") == ("con_can_stop",)
    assert sop.entry("al_other") is None
    assert sop.params == {
        "low_bar": Param(value=5.3, unit="bar", minimum=1, maximum=10, text="Least pressure."),
        "strict": Param(value=True),
    }
    node = sop.nodes[NodeId("obs_pressure_low")]
    assert node.kind is NodeKind.OBSERVATION
    assert node.sources == ("metrics",)
    assert node.targets == {
        "true": ("rc_leak", "con_can_stop"),
        "false": ("close",),
        "no_data": ("check_feed",),
        "failed": ("check_feed",),
    }
    assert node.line == 11
    assert node.text_sha256 == hashlib.sha256(b"Is the pressure really low?").hexdigest()
    ticket = sop.actions[ActionId("ticket")]
    assert ticket.cancels == {"check_feed"}
    assert (ticket.rank, ticket.cost, ticket.yields, ticket.line) == (3, Cost.LOW, False, 32)
    assert sop.actions[ActionId("close")].yields
    assert list(sop.nodes) == ["obs_pressure_low", "rc_leak", "con_can_stop"]
    assert list(sop.actions) == ["close", "check_feed", "ticket", "stop_pump"]


def test_how_a_text_is_folded_does_not_change_its_hash() -> None:
    folded = changed("text: Is there a leak?", "text: >\n      Is there\n      a leak?")
    before = parse_sop(SOUND.encode(), "a").nodes[NodeId("rc_leak")]
    after = parse_sop(folded.encode(), "b").nodes[NodeId("rc_leak")]
    assert after.text_sha256 == before.text_sha256


def test_load_reads_the_file_and_names_it(tmp_path: Path) -> None:
    path = tmp_path / "sop.yaml"
    path.write_text(SOUND)
    assert load_sop(path).file == str(path)
    path.write_text(changed("version: 3", "version: 0"))
    with pytest.raises(InvalidFiles, match=f"^{path}:2: `version` must be at least 1") as refused:
        load_sop(path)
    assert len(refused.value.findings) == 1


def test_an_observation_without_sources_is_only_a_warning() -> None:
    text = changed("    sources: [metrics]\n    on_true: [rc_leak", "    on_true: [rc_leak")
    sop, findings = check_sop(text.encode(), "sop.yaml")
    assert sop is not None
    assert [(f.line, f.where, f.warning) for f in findings] == [(11, "obs_pressure_low", True)]
    assert "no source" in findings[0].problem
    assert parse_sop(text.encode(), "sop.yaml") == sop


def test_a_leaf_is_fine() -> None:
    text = changed("    on_true: [ticket]\n", "")
    sop, findings = check_sop(text.encode(), "sop.yaml")
    assert sop is not None
    assert findings == []
    assert not any(sop.nodes[NodeId("rc_leak")].targets.values())


def test_values_of_the_file_are_shortened_and_never_break_a_line() -> None:
    name = "n" + "\\n" * 300
    found = errors_of(changed("on_true: [ticket]", f'on_true: ["{name}"]'))
    message = str(found[0])
    assert "\n" not in message
    assert len(message) < 500
