"""The host function that takes an agent's verdict."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from triage.model.verdict import Clause, Truth, Verdict
from triage.model.verdict_bounds import MAX_CLAUSES, verdict_problem

SUBMIT = "submit"
FIELDS = ("verdict", "explanation", "clauses", "subject")
CLAUSE_FIELDS = frozenset(Clause._fields)
CLAUSE_MUST = ("name", "observed", "op", "threshold")
WORDS = {truth.word: truth for truth in Truth}


class Submissions:
    """Of one attempt. `down` names the sources that failed and have not answered since.

    `taken` is the verdict of the run under way, `known` the last valid one of a run that failed
    afterwards, with the number of its turn. `refused` is the last complaint of this run, empty
    when there is none.
    """

    def __init__(self, down: Callable[[], set[str]]) -> None:
        self._down = down
        self._open = False
        self.taken: Verdict | None = None
        self.known: Verdict | None = None
        self.known_turn = 0
        self.refused = ""
        self.outage = False
        """Whether this run said `no_data` while a source was down."""

    def begin_run(self) -> None:
        self._open = True
        self.taken = None
        self.refused = ""
        self.outage = False

    def end_run(self, *, failed: bool, turn: int) -> None:
        """What the run submitted counts unless it `failed`; then it is kept as known."""
        self._open = False
        if self.taken is not None and failed:
            self.known, self.known_turn = self.taken, turn
            self.taken = None

    async def submit(self, *values: Any, **named: Any) -> dict[str, Any]:
        """The host function: what it returns is what the code sees, and it raises nothing."""
        problem = self._take(values, named)
        if problem:
            self.refused = problem
        return {"ok": not problem, "data": None, "error": problem}

    def _take(self, values: tuple[Any, ...], named: Mapping[str, Any]) -> str:
        if not self._open:
            return "the run is over"
        if self.taken is not None:
            return "a verdict was already submitted in this run: the first one counts"
        arguments = {**dict(zip(FIELDS, values, strict=False)), **named}
        if not arguments.keys() <= set(FIELDS) or len(values) > len(FIELDS):
            # Which one is not said: the names may be those of a source's answer.
            return f"an argument that is not known: it takes {', '.join(FIELDS)}"
        verdict = _verdict(arguments)
        problem = verdict if isinstance(verdict, str) else verdict_problem(verdict)
        if isinstance(verdict, str) or problem:
            return problem
        if verdict.value is Truth.NO_DATA and (down := self._down()):
            self.outage = True
            return (
                f"source {', '.join(sorted(down))} did not answer: an outage is not missing data,"
                " so no_data is no verdict here"
            )
        self.taken = verdict
        return ""


def _verdict(arguments: Mapping[str, Any]) -> Verdict | str:
    """Or what is wrong with its shape; its bounds are still to be looked at."""
    word = arguments.get("verdict")
    if type(word) is not str or word not in WORDS:
        return f"verdict must be one of {', '.join(map(repr, WORDS))}"
    explanation = arguments.get("explanation", "")
    if type(explanation) is not str:
        return "explanation must be one line that says why"
    clauses = arguments.get("clauses", [])
    if type(clauses) not in (list, tuple) or len(clauses) > MAX_CLAUSES:
        return f"clauses must be a list of at most {MAX_CLAUSES} objects"
    made: list[Clause] = []
    for number, clause in enumerate(clauses, 1):
        one = _clause(clause)
        if isinstance(one, str):
            return f"clause {number}: {one}"
        made.append(one)
    return Verdict(
        value=WORDS[word],
        clauses=tuple(made),
        explanation=" ".join(explanation.split()),
        subject=arguments.get("subject", ""),
    )


def _clause(clause: Any) -> Clause | str:
    if type(clause) is not dict:
        return f"a {type(clause).__name__} is no object with {', '.join(CLAUSE_MUST)}"
    if not clause.keys() <= CLAUSE_FIELDS:
        return f"it may have {', '.join(Clause._fields)} and nothing else"
    missing = [name for name in CLAUSE_MUST if name not in clause]
    if missing:
        return f"{', '.join(missing)} is missing"
    return Clause(**clause)
