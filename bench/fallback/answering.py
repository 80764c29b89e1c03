"""From a prompt to the code that answers it, by the question's own words.

A model that was taught the procedure's questions would know a question by what it says. So does
this: the text under the prompt's heading for the question is compared with the texts that were
learned, and whatever else the prompt holds (the node's name, its neighbours, worked examples, the
site, the time) is not looked at. A text that was not learned is refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from bench.cases.tool_sources import registered
from triage.sop.load import load_sop

NODE_TOOL = "node_tool"
"""The host function of a sub-agent that only calls the node's tool."""

REFUSAL = "I do not know how to answer this question, so I write no code for it."
CALL_THE_TOOL = f"""\
answer = await {NODE_TOOL}()
await submit(**answer["data"])
"""
RUN = "\n\nawait run_tool(queries, evaluate)\n"
MISTAKE = "\n\nawait run_tol(queries, evaluate)\n"

_HEADING = re.compile(r"^#+\s*(?:the\s+)?question\b.*$", re.IGNORECASE | re.MULTILINE)
_SPACE = re.compile(r"\s+")


class Reply(NamedTuple):
    """`known` is false for a refusal."""

    text: str
    known: bool


class Script:
    """`codes` maps a question's text to a tool's source. A message is (role, content)."""

    def __init__(self, codes: Mapping[str, str]) -> None:
        self._codes = {_plain(text): code for text, code in codes.items()}
        # The longest first: a text may begin as a shorter one does.
        self._texts = sorted(self._codes, key=len, reverse=True)

    def reply(self, messages: Sequence[tuple[str, str]], *, mistaken: bool = False) -> Reply:
        """The code that answers, in one block; with `mistaken` it calls what there is not until
        the messages hold a reply, and so what came of it."""
        opening = _opening(messages)
        if re.search(rf"\b{NODE_TOOL}\b", opening):
            return _written("The tool knows.", CALL_THE_TOOL)
        text = self.question(messages)
        if text is None:
            return Reply(REFUSAL, known=False)
        is_first = all(role != "assistant" for role, _ in messages)
        ending = MISTAKE if mistaken and is_first else RUN
        return _written("The sources are asked and judged as follows.", self._codes[text] + ending)

    def question(self, messages: Sequence[tuple[str, str]]) -> str | None:
        """The text that is asked about, None when it is none of those learned."""
        opening = _opening(messages)
        headings = list(_HEADING.finditer(opening))
        if not headings:
            return None
        # Worked examples have questions too; the one that is asked comes last.
        said = _plain(opening[headings[-1].end() :])
        return next((text for text in self._texts if said.startswith(text)), None)


def read_script(sop_file: Path, library: Path) -> Script:
    """Of the active tools of a library, by the texts of their nodes. Raises InvalidFiles."""
    sop = load_sop(sop_file)
    tools = registered(library, sop.nodes)
    return Script({sop.nodes[node].text: tool.text for node, tool in tools.items()})


def _opening(messages: Sequence[tuple[str, str]]) -> str:
    """What was said before the first reply."""
    said = []
    for role, content in messages:
        if role == "assistant":
            break
        said.append(content)
    return "\n\n".join(said)


def _plain(text: str) -> str:
    return _SPACE.sub(" ", text).strip()


def _written(thought: str, code: str) -> Reply:
    return Reply(f"{thought}\n\n```python\n{code.rstrip()}\n```\n", known=True)
