"""What each fault of an SOP file is called, with its line."""

from __future__ import annotations

import pytest

from tests.unit.sop.sample import SOUND, changed, errors_of


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
