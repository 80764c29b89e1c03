"""A decision that changes, as a tree for people. Text in it is a stranger's, as in `tree`."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from rich.text import Text
from rich.tree import Tree

from triage.app.difference import (
    EFFECTIVE,
    REACHED,
    ActionChange,
    ClauseChange,
    Document,
    NodeChange,
)
from triage.app.replayed import Missing, Replayed, Why
from triage.cli.text import printable
from triage.cli.tree import OUTCOME_STYLES, WORD_STYLES, query_text, shown

UNKNOWN = "not known"
WHY: Mapping[Why, str] = MappingProxyType(
    {
        Why.NOT_ASKED: "asks what was never recorded",
        Why.PURGED: "asks what was recorded and has been purged since",
        Why.FALLBACK: "was answered by the fallback, which is not asked again",
    }
)
_HOLDS = MappingProxyType({True: " holds", False: " does not hold", None: " cannot be told"})


def headline(document: Document) -> Text:
    """The alert on one line."""
    line = _text(document["alert_id"], "  ").append_text(
        _text(document["alarm"] or "(no alarm named)", style="bold")
    )
    for word, key in (("at", "site"), ("on", "entity")):
        if document[key]:
            line.append_text(_text(f" {word} ", document[key]))
    return line.append_text(_text(", decided ", document["decided_at"], style="dim"))


def difference_tree(replayed: Replayed) -> Tree:
    tree = Tree(headline(replayed.old), guide_style="dim")
    tree.add(_outcomes(replayed))
    for node in replayed.difference.nodes:
        _add_node(tree, node, replayed)
    for action in replayed.difference.actions:
        tree.add(_action(action))
    for missing in replayed.missing:
        tree.add(missing_line(missing))
    return tree


def missing_line(missing: Missing) -> Text:
    line = _text("unrecorded: ", style="yellow").append_text(_text(missing.node, " "))
    line.append_text(_text(WHY[missing.why]))
    if missing.query is not None:
        line.append_text(_text(": ", query_text(missing.query), style="dim"))
    return line


def _outcomes(replayed: Replayed) -> Text:
    old = replayed.old["outcome"]
    new = UNKNOWN if replayed.missing or replayed.new is None else replayed.new["outcome"]
    line = Text("outcome ")
    line.append_text(_text(old, style=OUTCOME_STYLES.get(old, "")))
    if new == old:
        return line.append(", as before")
    return line.append(" → ").append_text(_text(new, style=OUTCOME_STYLES.get(new, "yellow")))


# --- nodes ------------------------------------------------------------------------------------


def _add_node(tree: Tree, change: NodeChange, replayed: Replayed) -> None:
    old, new = change.old, change.new
    line = _text(change.node, style="bold").append(": ")
    if new is None:
        assert old is not None
        line.append("no longer reached, was ").append_text(_word(old["verdict"]))
        tree.add(line)
        return
    if old is None:
        line.append("newly reached, ")
    else:
        line.append_text(_word(old["verdict"])).append(" → ")
    unknown = any(missing.node == change.node for missing in replayed.missing)
    line.append_text(_text(UNKNOWN, style="yellow") if unknown else _word(new["verdict"]))
    leaf = tree.add(line.append_text(_versions(old, new)))
    if old is not None and old["explanation"]:
        leaf.add(_text("was: ", old["explanation"], style="dim"))
    if new["explanation"]:
        leaf.add(_text(new["explanation"], style="italic"))
    if new["failure"] is not None and not unknown:
        failure = new["failure"]
        leaf.add(_text("failed: ", failure["reason"], ": ", failure["detail"], style="red"))
    for clause in change.clauses:
        leaf.add(_flip(clause))


def _word(word: str) -> Text:
    return _text(word, style=WORD_STYLES.get(word, ""))


def _versions(old: Document | None, new: Document) -> Text:
    """Of the tool. Two libraries may each have a version of that number."""
    number = new["tool_version"]
    if not number:
        return Text()
    if old is None or old["tool_sha256"] == new["tool_sha256"]:
        return _text(f"  (tool v{number})", style="dim")
    other = "another " if old["tool_version"] == number else ""
    return _text(f"  (tool v{old['tool_version']} → {other}v{number})", style="dim")


def _flip(change: ClauseChange) -> Text:
    if change.old is None:
        return _clause("new clause ", change.new)
    if change.new is None:
        return _clause("no longer compared: ", change.old)
    return _clause("", change.old).append(" → ").append_text(_clause("", change.new, named=False))


def _clause(lead: str, clause: Document | None, *, named: bool = True) -> Text:
    assert clause is not None
    name = f"{clause['name']}: " if named else ""
    unit = f" {clause['unit']}" if clause["unit"] else ""
    line = _text(lead, name, shown(clause["observed"]), " ", clause["op"], " ")
    return line.append_text(_text(shown(clause["threshold"]), unit, _HOLDS[clause["holds"]]))


# --- actions ----------------------------------------------------------------------------------


def _action(change: ActionChange) -> Text:
    line = _text("action ", style="dim").append_text(_text(change.action, style="bold"))
    if change.subject:
        line.append_text(_text(" on ", change.subject))
    by = f" by {change.by}" if change.by else ""
    line.append_text(_text(": ", _state(change.old), " → ", _state(change.new), by))
    style = {EFFECTIVE: "green", REACHED: "yellow"}.get(change.new, "red")
    line.stylize(style, len(line) - len(_state(change.new) + by))
    return line


def _state(state: str) -> str:
    if state in {"", EFFECTIVE}:
        return state or "not reached"
    return "reached, its fate not known" if state == REACHED else f"dropped ({state})"


def _text(*parts: object, style: str = "") -> Text:
    return Text(printable("".join(map(str, parts))), style=style)
