"""Worked examples for a prompt: what answered such a question before, and some that come with us.

A recorded one is a file `tools_lib/<node>/traces/<name>.json`, a trace's document as decisions have
it (`model.trace.trace_document`) with two more keys::

    {
      "question": {"node": "obs_full", "text": "Is it full?", "sources": ["metrics"]},
      "verdict": {"value": "true", "explanation": "…", "subject": "…"},
      "ended": "verdict",
      "turns": [{"thought": "…", "code": "…", …}, …]
    }

Its last turn is the example: that code gave the verdict. One of ours is a YAML file with `kinds`,
`order`, `question`, `thought` and `code`, in which `@samples@`, `@aggregate@` and `@query@` stand
for the names of the node's own host functions.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import orjson
import structlog
import yaml

from triage.model.question import Question
from triage.model.trace import VERDICT

MOST = 3
"""Examples in a prompt."""
KEPT = 3
"""Recorded ones of a node that are kept, the newest by name."""
MAX_BYTES = 1 << 20
MAX_CODE = 6_000  # characters: three of them must fit into a small window

FACE_KINDS = ("samples", "aggregate", "query")
CALL = "call"
FOLDER = "prompts/examples"

_SLOT = re.compile(r"@(samples|aggregate|query)@")


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """`kinds` are what its code calls: of FACE_KINDS, or CALL for a tool of another kind. A
    recorded one has a `node` and its `sources`, and no kinds."""

    question: str
    thought: str
    code: str
    kinds: frozenset[str] = frozenset()
    node: str = ""
    sources: frozenset[str] = frozenset()

    def fits(self, kinds: Mapping[str, str]) -> bool:
        """Whether a node with these kinds of functions could call what it calls."""
        return self.kinds <= kinds.keys()

    def with_functions(self, kinds: Mapping[str, str]) -> str:
        """The code; `kinds` maps a kind to the node's function of it."""
        return _SLOT.sub(lambda slot: kinds.get(slot[1], slot[0]), self.code)


def examples_of(library: Path) -> Callable[[Question], Sequence[Example]]:
    """Reads all of them now, and nothing later. A file that cannot be used is skipped and named
    in a warning."""
    recorded = tuple(_recorded(library))
    ours = builtin_examples()

    def chosen(question: Question) -> Sequence[Example]:
        """Those of the same node, then of nodes with the same sources, then ours: candidates, of
        which the prompt takes the first MOST that fit."""
        sources = frozenset(question.sources)
        same = [one for one in recorded if one.node == question.node]
        alike = [one for one in recorded if one.node != question.node and one.sources == sources]
        return (*same[:MOST], *alike[:MOST], *ours)

    return chosen


def builtin_examples() -> tuple[Example, ...]:
    """Ours, in their order: kinds take turns."""
    folder = resources.files(__package__ or "triage.fallback").joinpath(FOLDER)
    documents = [
        yaml.safe_load(file.read_text(encoding="utf-8"))
        for file in sorted(folder.iterdir(), key=lambda file: file.name)
        if file.name.endswith(".yaml")
    ]
    documents.sort(key=lambda document: (document["order"], document["kinds"]))
    return tuple(
        Example(
            question=document["question"].strip(),
            thought=" ".join(document["thought"].split()),
            code=document["code"].strip("\n"),
            kinds=frozenset(document["kinds"]),
        )
        for document in documents
    )


def choose(candidates: Iterable[Example], kinds: Mapping[str, str]) -> list[Example]:
    """The first MOST that fit the node's functions; `kinds` as in `Example.with_functions`. While
    ours are added, a kind that has none yet goes before a second one of another."""
    fitting = [one for one in candidates if one.fits(kinds)]
    taken = [one for one in fitting if not one.kinds][:MOST]
    rest = [one for one in fitting if one.kinds]
    while rest and len(taken) < MOST:
        seen = {kind for one in taken for kind in one.kinds}
        following = next((one for one in rest if not one.kinds & seen), rest[0])
        rest.remove(following)
        taken.append(following)
    return taken


def _recorded(library: Path) -> Iterator[Example]:
    for folder in sorted(library.glob("*/traces")):
        found: list[Example] = []
        for path in sorted(folder.glob("*.json"), reverse=True):
            if len(found) == KEPT:
                break
            example = _read(path)
            if example is not None:
                found.append(example)
        yield from found


def _read(path: Path) -> Example | None:
    try:
        if path.stat().st_size > MAX_BYTES:
            raise ValueError(f"it is larger than {MAX_BYTES} bytes")
        return _example(orjson.loads(path.read_bytes()))
    except (OSError, ValueError) as error:
        structlog.get_logger("triage.fallback").warning(
            "example_skipped", file=str(path), problem=str(error)
        )
        return None


def _example(document: object) -> Example:
    """Raises ValueError, which says what it lacks."""
    match document:
        case {
            "question": {"node": str(node), "text": str(text), "sources": list(sources)},
            "verdict": {"value": "true" | "false" | "no_data"},
            "ended": str(ended),
            "turns": [*_, {"thought": str(thought), "code": str(code)}],
        }:
            return _checked(ended, node, text, sources, thought, code)
    raise ValueError(
        "it is no trace with question (node, text, sources), verdict (value), ended and turns"
    )


def _checked(
    ended: str, node: str, text: str, sources: list[Any], thought: str, code: str
) -> Example:
    if ended != VERDICT:
        raise ValueError(f"it ended as {ended!r}: only one that gave a verdict is an example")
    if not code.strip() or len(code) > MAX_CODE or "```" in code:
        raise ValueError(
            f"its last turn's code must have 1 to {MAX_CODE} characters, and no row of backticks"
        )
    if not all(isinstance(source, str) for source in sources):
        raise ValueError("question.sources must be names")
    return Example(
        question=" ".join(text.split()),
        thought=" ".join(thought.split()),
        code=code.strip("\n"),
        node=node,
        sources=frozenset(sources),
    )
