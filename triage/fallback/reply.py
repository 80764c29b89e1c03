"""Takes a model's reply apart: its thought, and the one block of code to run.

Nothing is guessed: a reply that could be read in two ways is not run, and the model is told why.
One pass over the lines, so that a reply made to be slow to parse is not.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Collection
from enum import StrEnum
from typing import Any, NamedTuple

import orjson

from triage.ports import Completion

MAX_REPLY_CHARS = 256 * 1024
MAX_BARE_CHARS = 8 * 1024  # of code without a fence: parsing 32 KB of malice takes 0.3 s
CUT_OFF = "length"
WITHHELD = "refused"
PYTHON = frozenset({"", "py", "python", "python3", "py3", "ipython"})
THINKING, THOUGHT = "<think>", "</think>"

THOUGHT_KEY, CODE_KEY = "thought", "code"
REPLY_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {THOUGHT_KEY: {"type": "string"}, CODE_KEY: {"type": "string"}},
    "required": [THOUGHT_KEY, CODE_KEY],
    "additionalProperties": False,
}
"""Of a reply where the endpoint holds replies to a schema."""

# Small models open a block in the line of their thought. With its language it can be nothing else.
_FENCE_AFTER_PROSE = re.compile(
    r"(.*\S)[ \t]+(`{3,})[ \t]*(py[a-z0-9]{0,10})[ \t]*$", re.IGNORECASE
)
_FENCE = re.compile(r"([ \t]{0,8})(`{3,}|~{3,})[ \t]*([^`]{0,80})$")


class NoCode(StrEnum):
    """Why a reply holds nothing to run. Each has a phrase of its name."""

    EMPTY = "reply_empty"
    PROSE = "reply_prose"
    REFUSED = "reply_refused"
    BLOCKS = "reply_blocks"
    LANGUAGE = "reply_language"
    TRUNCATED = "reply_truncated"
    TOO_LONG = "reply_too_long"
    CODE_TOO_LONG = "code_too_long"


class Reply(NamedTuple):
    """`problem` is None when there is `code`. `thought` is everything else the reply said.
    `values` fill in the problem's phrase."""

    thought: str
    code: str = ""
    problem: NoCode | None = None
    values: dict[str, str] = {}  # noqa: RUF012 - never written to


class _Block(NamedTuple):
    language: str
    code: str
    closed: bool


def read_reply(completion: Completion, *, callables: Collection[str], code_bytes: int) -> Reply:
    """`callables` are the functions that code without a fence is known by. Never raises."""
    # A lone surrogate, which JSON may spell, has no bytes: no sandbox and no record could hold it.
    text = completion.text[:MAX_REPLY_CHARS].encode(errors="replace").decode()
    if completion.finish == WITHHELD:
        return Reply(text.strip(), problem=NoCode.REFUSED)
    if len(completion.text) > MAX_REPLY_CHARS:
        return Reply(text.strip(), problem=NoCode.TOO_LONG)
    cut_off = completion.finish == CUT_OFF
    thinking, text = split_thinking(text)
    if not text.strip():
        return Reply(thinking, problem=NoCode.TRUNCATED if cut_off else NoCode.EMPTY)
    structured = _structured(text)
    if structured is not None:
        said, code = structured
        # Some models fence the program even there.
        text = code if _split_blocks(code)[1] else f"```python\n{code}\n```"
        thinking = "\n".join(part for part in (thinking, said) if part)
    prose, blocks = _split_blocks(text)
    reply = _choose(prose, blocks, text, cut_off=cut_off, callables=callables)
    thought = "\n".join(part for part in (thinking, reply.thought) if part)
    size = len(reply.code.encode(errors="replace"))
    if size > code_bytes:
        return Reply(
            thought,
            problem=NoCode.CODE_TOO_LONG,
            values={"size": str(size), "limit": str(code_bytes)},
        )
    return reply._replace(thought=thought)


def _choose(  # noqa: PLR0911 - one kind of reply a return
    prose: str,
    blocks: list[_Block],
    text: str,
    *,
    cut_off: bool,
    callables: Collection[str],
) -> Reply:
    if len(blocks) > 1:
        values = {"count": str(len(blocks))}
        return Reply(text.strip(), problem=NoCode.BLOCKS, values=values)
    if blocks:
        block = blocks[0]
        if block.language not in PYTHON:
            values = {"language": block.language}
            return Reply(text.strip(), problem=NoCode.LANGUAGE, values=values)
        if cut_off and not block.closed:
            return Reply(text.strip(), problem=NoCode.TRUNCATED)
        return Reply(prose, code=block.code)
    if cut_off:
        # What parses may still be the first half of something else.
        return Reply(text.strip(), problem=NoCode.TRUNCATED)
    if _is_program(text, callables):
        return Reply("", code=text.strip("\n"))
    return Reply(prose, problem=NoCode.PROSE if prose else NoCode.EMPTY)


def _structured(text: str) -> tuple[str, str] | None:
    """Thought and code of a reply that is a JSON object with both, None for any other."""
    if not text.lstrip().startswith("{"):
        return None
    try:
        document = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    if not isinstance(document, dict):
        return None
    thought, code = document.get(THOUGHT_KEY, ""), document.get(CODE_KEY)
    if not isinstance(thought, str) or not isinstance(code, str):
        return None
    return thought.strip(), code


def structured(thought: str, code: str) -> str:
    """A reply as REPLY_SCHEMA has it."""
    return orjson.dumps({THOUGHT_KEY: thought, CODE_KEY: code}).decode()


def split_thinking(text: str) -> tuple[str, str]:
    """What a reasoning model thought aloud, and the reply proper: fences in the former are
    drafts."""
    start = text.lstrip()
    if not start.startswith(THINKING):
        return "", text
    thinking, _, rest = start.removeprefix(THINKING).partition(THOUGHT)
    return thinking.strip(), rest


def _split_blocks(text: str) -> tuple[str, list[_Block]]:
    """The text outside, and the blocks that are not blank. A fence is closed by one of its own
    kind, at least as long and bare, as in Markdown."""
    prose: list[str] = []
    blocks: list[_Block] = []
    opened = language = indent = ""
    code: list[str] = []
    for line in text.replace("\r\n", "\n").split("\n"):
        fence = _FENCE.match(line)
        if not opened:
            if fence is None:
                late = _FENCE_AFTER_PROSE.match(line) if "`" in line else None
                prose.append(line if late is None else late[1])
                if late is not None:
                    indent, opened, language, code = "", late[2], _language(late[3]), []
            else:
                indent, opened, language, code = fence[1], fence[2], _language(fence[3]), []
        elif fence and not fence[3].strip() and fence[2].startswith(opened):
            blocks.append(_Block(language, "\n".join(code), closed=True))
            opened = ""
        else:
            # A block in a list is indented as its fence is.
            code.append(line.removeprefix(indent))
    if opened:
        blocks.append(_Block(language, "\n".join(code), closed=False))
    return "\n".join(prose).strip(), [block for block in blocks if block.code.strip()]


def _language(info: str) -> str:
    words = info.split()
    return words[0].strip("{}.").lower() if words else ""


def _is_program(text: str, callables: Collection[str]) -> bool:
    """Whether all of it is Python that calls one of `callables`: prose never is."""
    if len(text) > MAX_BARE_CHARS or not any(name in text for name in callables):
        return False
    try:
        with warnings.catch_warnings():
            # An odd escape in a model's code is no warning of ours.
            warnings.simplefilter("ignore")
            tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return any(
        isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in callables
        for node in ast.walk(tree)
    )
