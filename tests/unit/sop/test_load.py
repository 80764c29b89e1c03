"""The SOP file: what it becomes, and what each fault is called, with its line."""

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


@pytest.mark.parametrize(
    ("old", "new", "line", "where", "problem", "fix"),
    [
        # --- shape
        (
            "version: 3",
            "version: '3'",
            2,
            "",
            "`version` must be a whole number, not `3`",
            "quotes",
        ),
        ("version: 3", "version: 3.5", 2, "", "must be a whole number, not the number 3.5", ""),
        ("version: 3", "version: true", 2, "", "must be a whole number, not `true`", ""),
        ("version: 3", "versoin: 3", 1, "", "`version` is missing", "add `version`"),
        ("version: 3", "versoin: 3", 2, "", "the key `versoin` is unknown", "mean `version`?"),
        ("sop: pump-house", "sop: pump house", 1, "", "`sop` may not be `pump house`", "letter"),
        ("sop: pump-house", "sop:", 1, "", "`sop` is empty, but must be text", "write a value"),
        (
            "    kind: root_cause",
            "    kind: cause",
            20,
            "rc_leak",
            "`kind` must be observation, root_cause or constraint, not `cause`",
            "choose one",
        ),
        ("    text: Is there a leak?\n", "", 19, "rc_leak", "`text` is missing", "The question"),
        ("text: Is there a leak?", "text: ' '", 21, "rc_leak", "`text` is empty", "write"),
        (
            "text: Is there a leak?",
            "text: 7",
            21,
            "rc_leak",
            "`text` must be text, not the number 7",
            "quotes",
        ),
        ("text: Is there a leak?", f"text: {'x' * 8193}", 21, "rc_leak", "longer than 8192", ""),
        (
            "    on_true: [ticket]",
            "    on_tru: [ticket]",
            23,
            "rc_leak",
            "the key `on_tru` is unknown",
            "did you mean `on_true`?",
        ),
        (
            "    on_true: [ticket]",
            "    yes: [ticket]",
            23,
            "rc_leak",
            "the key `yes` is unknown",
            "write `on_true`",
        ),
        (
            "    on_true: [ticket]",
            "    true: [ticket]",
            23,
            "rc_leak",
            "read as a boolean",
            "write `on_true`",
        ),
        (
            "    on_true: [ticket]",
            "    on_true: [ticket, 7]",
            23,
            "rc_leak",
            "item 2 of `on_true` must be text",
            "",
        ),
        (
            "    on_true: [ticket]",
            "    on_true: {a: b}",
            23,
            "rc_leak",
            "`on_true` must be a list, not a mapping",
            "[a, b]",
        ),
        ("    on_true: [ticket]", "    on_true:", 23, "rc_leak", "`on_true` is empty", ""),
        (
            "  rc_leak:\n",
            "  rc leak:\n",
            19,
            "rc leak",
            "the name `rc leak` is not allowed",
            "begin with a letter",
        ),
        (
            "  strict: {value: true}",
            "  strict: true",
            9,
            "strict",
            "it must be a mapping, not `true`",
            "key: value",
        ),
        (
            "  strict: {value: true}",
            "  strict: {value: [1]}",
            9,
            "strict",
            "`value` must be a number, text, `true` or `false`, not a list",
            "",
        ),
        (
            "rank: 9, cost: high",
            "rank: 9, cost: dear",
            33,
            "stop_pump",
            "`cost` must be low or high, not `dear`",
            "",
        ),
        ("rank: 9, cost: high", "cost: high", 33, "stop_pump", "`rank` is missing", "add `rank`"),
        ("rank: 9, cost: high", "rank: 1e9, cost: high", 33, "stop_pump", "`rank`", ""),
        (
            "rank: 9, cost: high",
            "rank: 9000000, cost: high",
            33,
            "stop_pump",
            "at most 1000000",
            "lower",
        ),
        (
            "cost: low, yields: true",
            "cost: low, yields: yes",
            30,
            "close",
            "`yields` must be `true` or `false`, not `yes`",
            "",
        ),
        ('  "Pressure low (old)": con', '  " old": con', 5, " old", "is not allowed", "blank"),
        # --- names
        (
            "on_true: [rc_leak, con_can_stop]",
            "on_true: [rc_laek, con_can_stop]",
            15,
            "obs_pressure_low",
            "`on_true` leads to `rc_laek`, which is no node and no action",
            "did you mean `rc_leak`?",
        ),
        ("on_true: [ticket]", "on_true: [ticket, qqqq]", 23, "rc_leak", "`qqqq`", "add it under"),
        (
            "on_true: [rc_leak, con_can_stop]",
            "on_true:\n      - rc_leak\n      - con_can_stop\n      - rc_leak",
            18,
            "obs_pressure_low",
            "`rc_leak` stands twice in `on_true`",
            "remove",
        ),
        ("[metrics, tables]", "[tables, tables]", 22, "rc_leak", "`tables` stands twice", ""),
        (
            "al_pressure_low: [obs_pressure_low]",
            "al_pressure_low: [obs_presure_low]",
            4,
            "al_pressure_low",
            "the entry `obs_presure_low` is not a node",
            "`obs_pressure_low`?",
        ),
        (
            "al_pressure_low: [obs_pressure_low]",
            "al_pressure_low: []",
            4,
            "al_pressure_low",
            "enters at no node",
            "entry nodes",
        ),
        (
            "al_pressure_low: [obs_pressure_low]",
            "al_pressure_low: [obs_pressure_low, close]",
            4,
            "al_pressure_low",
            "the entry `close` is an action",
            "enter at a node",
        ),
        (
            "{PressureLow: al_pressure_low}",
            "{PressureLow: al_presure_low}",
            6,
            "PressureLow",
            "`al_presure_low` is not an alarm",
            "did you mean `al_pressure_low`?",
        ),
        (
            "{PressureLow: al_pressure_low}",
            "{a: al_pressure_low, b: a}",
            6,
            "b",
            "`a` is an alias itself",
            "name the alarm",
        ),
        (
            "{PressureLow: al_pressure_low}",
            "{al_pressure_low: Pressure low (old)}",
            6,
            "al_pressure_low",
            "is also an alarm, on line 4",
            "remove",
        ),
        (
            "cancels: [check_feed]",
            "cancels: [chek_feed]",
            32,
            "ticket",
            "cancels `chek_feed`, which is no action",
            "did you mean `check_feed`?",
        ),
        ("cancels: [check_feed]", "cancels: [ticket]", 32, "ticket", "cancels itself", "remove"),
        ("cancels: [check_feed]", "cancels: [rc_leak]", 32, "ticket", "which is a node", "action"),
        (
            "  stop_pump: {",
            "  rc_leak: {text: x, rank: 1, cost: low}\n  stop_pump: {",
            33,
            "rc_leak",
            "is an action here and a node on line 19",
            "rename",
        ),
        (
            "  con_can_stop:\n",
            "  rc_leak:\n",
            24,
            "rc_leak",
            "the node rc_leak is given twice, on lines 19 and 24",
            "rename",
        ),
        (
            "  check_feed: {",
            "  close: {",
            31,
            "close",
            "the action close is given twice, on lines 30 and 31",
            "",
        ),
        # --- params
        (
            "value: 5.3, unit: bar",
            "value: 11, unit: bar",
            8,
            "low_bar",
            "11 is above the greatest value 10",
            "",
        ),
        (
            "value: 5.3, unit: bar",
            "value: 0.5, unit: bar",
            8,
            "low_bar",
            "0.5 is below the least value 1",
            "",
        ),
        (
            "value: 5.3, unit: bar",
            "value: high, unit: bar",
            8,
            "low_bar",
            "has `min` or `max`, but is text",
            "",
        ),
        ("min: 1, max: 10", "min: 10, max: 1", 8, "low_bar", "`min` 10 is above `max` 1", ""),
        (
            "min: 1, max: 10",
            "min: '1', max: 10",
            8,
            "low_bar",
            "`min` must be a number, not `1`",
            "",
        ),
        # --- constraints
        (
            "    on_false: [ticket]\nactions",
            "    on_false: [ticket]\n    on_failed: ticket\nactions",
            29,
            "con_can_stop",
            "a failed constraint reaches no action",
            "remove it",
        ),
    ],
)
def test_every_fault_has_its_line_its_place_and_a_fix(
    old: str, new: str, line: int, where: str, problem: str, fix: str
) -> None:
    found = errors_of(changed(old, new))
    matching = [f for f in found if (f.line, f.where) == (line, where) and problem in f.problem]
    assert len(matching) == 1, "\n".join(map(str, found))
    assert matching[0].fix
    assert fix in matching[0].fix


def test_no_message_speaks_pydantic() -> None:
    text = SOUND.replace("text:", "txt:").replace("cost: low", "cost: [low]")
    for finding in errors_of(text.replace("version: 3", "version: x")):
        message = str(finding)
        assert not any(
            word in message for word in ("Input", "validation", "dict", "valid_", "str ")
        )


def test_all_faults_are_found_at_once_in_the_order_of_their_lines() -> None:
    text = (
        SOUND.replace("version: 3", "version: 0")
        .replace("kind: root_cause", "kind: cause")
        .replace("on_false: close", "on_false: clos")
        .replace(
            "    sources: [metrics, tables]\n    on_true: [ticket]", "    on_true: [tickt, rc_leak]"
        )
        .replace("cancels: [check_feed]", "cancels: [stop]")
    )
    found = errors_of(text)
    assert [(f.line, f.where) for f in found] == [
        (2, ""),
        (16, "obs_pressure_low"),
        (20, "rc_leak"),
        (22, "rc_leak"),  # an entry that has a fault of its own has its edges checked too
        (31, "ticket"),
    ]


def test_a_faulty_entry_still_counts_as_there() -> None:
    """Else one typo in a node would be followed by a dangling edge for every way to it."""
    found = errors_of(changed("    kind: root_cause", "    kind: cause"))
    assert len(found) == 1


@pytest.mark.parametrize("section", ["alarms", "aliases", "params", "nodes", "actions"])
@pytest.mark.parametrize("value", ["[a]", "x", "7", ""])
def test_a_section_of_the_wrong_kind_is_one_fault_of_its_own(section: str, value: str) -> None:
    text = f"sop: a\nversion: 1\n{section}: {value}\n"
    own = [f for f in errors_of(text) if f.line == 3]
    assert len(own) == 1
    assert own[0].problem.startswith(f"`{section}` ")
    assert "a mapping" in own[0].problem


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
