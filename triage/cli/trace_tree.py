"""What a fallback did for a node: a line a turn, or all of every turn.

Every text is a stranger's text, the model's own included: it is shown as `tree` shows any.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from rich.text import Text
from rich.tree import Tree

from triage.cli.text import printable, printable_lines

Document = Mapping[str, Any]

SHORT = 12  # characters of a SHA-256
BRIEF = 48  # characters of a thought or an observation on a turn's one line
NAMED = 6  # functions that a turn's one line names


def add_trace(leaf: Tree, trace: Document, *, whole: bool) -> None:
    """Raises KeyError, TypeError, ValueError or AttributeError for a document of another form."""
    branch = leaf.add(_header(trace))
    for number, turn in enumerate(trace["turns"], start=1):
        if whole:
            _add_turn(branch, number, turn)
        else:
            branch.add(_brief_turn(number, turn))


def _header(trace: Document) -> Text:
    style = "" if trace["ended"] == "verdict" else "red"
    line = _text(f"fallback: {trace['ended']}", style)
    line.append_text(_text(f" after {_counted(len(trace['turns']), 'turn')}"))
    prompt = f"prompt {trace['prompt_version']} {str(trace['prompt_sha256'])[:SHORT]}"
    facts = (f"{trace['tokens']} tokens", _ms(trace["elapsed_ms"]), trace["model"], prompt)
    return line.append_text(_text(f"  ({', '.join(map(str, facts))})", "dim"))


# --- a line a turn ----------------------------------------------------------------------------


def _brief_turn(number: int, turn: Document) -> Text:
    line = _text(f"{number}: ", "dim")
    parts = [_brief(turn["thought"]), _code_size(turn["code"]), *_called(turn["calls"])]
    line.append_text(_text("; ".join(part for part in parts if part)))
    if turn["observation"]:
        line.append_text(_text(f" → {_brief(turn['observation'])}", "italic"))
    spent = f"{_tokens(turn)} tokens, {_ms(turn['model_ms'] + turn['sandbox_ms'])}"
    return line.append_text(_text(f"  ({spent})", "dim"))


def _brief(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= BRIEF else f"{line[: BRIEF - 1]}…"


def _code_size(code: str) -> str:
    lines = len(code.splitlines())
    return f"{_counted(lines, 'line')} of code" if lines else "no code"


def _called(calls: list[Document]) -> Iterator[str]:
    counts = Counter((call["function"], bool(call["ok"])) for call in calls)
    for (function, ok), count in list(counts.items())[:NAMED]:
        times = f" {count} times" if count > 1 else ""
        yield f"{function}{times} {'✓' if ok else '✗'}"
    if len(counts) > NAMED:
        yield f"{len(counts) - NAMED} more"


# --- all of a turn ----------------------------------------------------------------------------


def _add_turn(branch: Tree, number: int, turn: Document) -> None:
    prompt, completion = turn["prompt_tokens"], turn["completion_tokens"]
    times = f"model {_ms(turn['model_ms'])}, sandbox {_ms(turn['sandbox_ms'])}"
    head = _text(f"turn {number}").append_text(
        _text(f"  ({prompt} + {completion} tokens, {times})", "dim")
    )
    inner = branch.add(head)
    _add_block(inner, "thought", turn["thought"], "italic")
    _add_block(inner, "code", turn["code"], "")
    for call in turn["calls"]:
        inner.add(_call(call))
    _add_block(inner, "observation", turn["observation"], "")


def _add_block(inner: Tree, name: str, text: str, style: str) -> None:
    if text.strip():
        inner.add(_text(name, "dim")).add(Text(printable_lines(text.strip("\n")), style=style))


def _call(call: Document) -> Text:
    line = _text(f"{call['function']}({call['arguments']})")
    if not call["ok"]:
        return line.append_text(_text(f" ✗ {call['error']}", "red"))
    answer = f", answer {str(call['answer_sha256'])[:SHORT]}" if call["answer_sha256"] else ""
    facts = f"  ({call['answer_bytes']} bytes{answer}, {_ms(call['elapsed_ms'])})"
    return line.append(" ✓", style="green").append_text(_text(facts, "dim"))


def _tokens(turn: Document) -> int:
    return int(turn["prompt_tokens"]) + int(turn["completion_tokens"])


def _ms(milliseconds: float) -> str:
    return f"{milliseconds:.1f} ms"


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _text(text: str, style: str = "") -> Text:
    return Text(printable(text), style=style)
