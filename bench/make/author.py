"""A model that knows programming, the tool API and how the procedure's questions are answered, and
of a site's data what its prompt shows.

The node is found by the text under `# Question`, as `bench.fallback.answering` does. What it writes
is the tool that was learned for that text, with a guess for every name that no trace shows, without
what deals with quirks that none shows, and with a mistake or two of its own. A repair begins with
the candidate in the prompt: what it lacks is read from its code (`draft`), and mended as far as
traces and failing cases show it. With `ignores_mismatches` nothing of a candidate is mended.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import orjson

from bench.cases.tool_sources import registered
from bench.fallback.answering import REFUSAL, Reply, Script
from bench.make.bugs import Bug
from bench.make.draft import Known, State
from bench.make.evidence import Evidence
from bench.make.exploring import exploring
from bench.make.holes import holes_of
from bench.make.reading import FAILED, Prompt, Shown, Step, read_prompt
from triage.sop.load import load_sop
from triage.sop.procedure import Param

Bugs = Mapping[str, Sequence[str]]
"""By node, as `str(Bug)`."""

NOTHING_FOUND = "The code does what the question says, and the cases expect something else."


class Author(Script):
    """`sources` maps a question's text to its tool. `bugs` are by the same text."""

    def __init__(
        self,
        sources: Mapping[str, str],
        params: Mapping[str, Param],
        *,
        bugs: Mapping[str, Sequence[Bug]] | None = None,
        ignores_mismatches: bool = False,
    ) -> None:
        super().__init__(sources)
        self._sources = {" ".join(text.split()): source for text, source in sources.items()}
        self._bugs = {" ".join(text.split()): some for text, some in (bugs or {}).items()}
        self._params = params
        self._taken = all_names(sources.values())
        self._learned: dict[str, Known] = {}
        self._ignores_mismatches = ignores_mismatches

    def reply(self, messages: Sequence[tuple[str, str]], *, mistaken: bool = False) -> Reply:  # noqa: ARG002 - makes mistakes of its own
        prompt = read_prompt(_opening(messages))
        text = self._text_of(prompt.question)
        if text is None or prompt.step is Step.UNKNOWN:
            return Reply(REFUSAL, known=False)
        known = self._known(text)
        match prompt.step:
            case Step.COLLECT:
                return exploring(known, self._sources[text], messages)
            case Step.MAKE:
                state = known.first(Evidence(prompt.traces, prompt.units))
                return _file(known, state, f"A first version{_told(known, state)}.")
            case Step.REFLECT:
                return Reply(self._diagnosis(known, prompt, text), known=True)
            case Step.REPAIR:
                return self._repair(known, prompt)
        raise AssertionError(prompt.step)

    def _text_of(self, question: str) -> str | None:
        """The learned text that it begins with, the longest of several."""
        said = " ".join(question.split())
        return max((text for text in self._sources if said.startswith(text)), key=len, default=None)

    def _known(self, text: str) -> Known:
        if text not in self._learned:
            self._learned[text] = Known(
                self._sources[text],
                self._params,
                bugs=self._bugs.get(text, ()),
                taken=self._taken,
            )
        return self._learned[text]

    def _repair(self, known: Known, prompt: Prompt) -> Reply:
        state = known.state_of(prompt.candidate)
        if state is None:  # not its own code: begun anew
            state = known.first(Evidence(prompt.traces, prompt.units))
        elif not self._ignores_mismatches:
            shown = Evidence([*prompt.traces, *prompt.cases], prompt.units)
            state = known.mended(state, shown, prompt.cases)
        return _file(known, state, f"Rewritten{_told(known, state)}.")

    def _diagnosis(self, known: Known, prompt: Prompt, text: str) -> str:
        said = [*_common(prompt.cases)]
        state = known.state_of(prompt.candidate)
        if state is not None and state.is_whole:
            said += [NOTHING_FOUND, f'Sentence: "{text}"']
        return "\n".join(said) or "No case is shown."


def read_author(
    sop_file: Path, library: Path, bugs: Bugs, *, ignores_mismatches: bool = False
) -> Author:
    """Of the active tools of a library. Raises InvalidFiles, and ValueError for a bug that is not
    spelled as one."""
    sop = load_sop(sop_file)
    tools = registered(library, sop.nodes)
    return Author(
        {sop.nodes[node].text: tool.text for node, tool in tools.items()},
        sop.params,
        bugs={
            sop.nodes[node].text: [Bug.read(text) for text in bugs.get(node, ())] for node in tools
        },
        ignores_mismatches=ignores_mismatches,
    )


def read_bugs(file: Path) -> Bugs:
    """Raises OSError and ValueError."""
    found: Bugs = orjson.loads(file.read_bytes())
    return found


def all_names(sources: Iterable[str]) -> frozenset[str]:
    """Every name of the data that some tool knows, and every other text in it: no guess may happen
    to be right, or be taken for something else."""
    names: set[str] = set()
    for source in sources:
        tree = ast.parse(source)
        names |= {hole.name for hole in holes_of(tree)}
        names |= {
            node.value
            for node in ast.walk(tree)
            if isinstance(node, ast.Constant) and isinstance(node.value, str)
        }
    return frozenset(names)


def _opening(messages: Sequence[tuple[str, str]]) -> str:
    """What the user said before the first reply: rules may have headings of their own."""
    said = []
    for role, content in messages:
        if role == "assistant":
            break
        if role == "user":
            said.append(content)
    return "\n\n".join(said)


def _file(known: Known, state: State, thought: str) -> Reply:
    return Reply(f"{thought}\n\n```python\n{known.text(state).rstrip()}\n```\n", known=True)


def _told(known: Known, state: State) -> str:
    dealt = [quirk.told for quirk in known.quirks if quirk.name not in state.quirks]
    guessed = f"; {len(state.holes)} names are guessed" if state.holes else ""
    return f": {', '.join(dealt)}{guessed}" if dealt else guessed


def _common(cases: Sequence[Shown]) -> list[str]:
    """What the failing cases show: how they differ, at which clause, and how they failed."""
    cells = Counter((case.expected, case.predicted) for case in cases)
    lines = []
    for (expected, predicted), count in cells.most_common(3):
        these = [case for case in cases if (case.expected, case.predicted) == (expected, predicted)]
        if predicted == FAILED:
            lines.append(f"{count} cases failed, the first with {these[0].failure}.")
            continue
        clauses = dict.fromkeys(clause.name for case in these for clause in case.clauses)
        at = f", at the clause {', '.join(clauses)}" if clauses else ""
        if expected == predicted:
            lines.append(f"{count} cases have the wrong subject{at}.")
        else:
            lines.append(f"{count} cases are {expected} and were {predicted}{at}.")
    return lines
