"""A case's line against the SOP, the sites file, and what a recording can hold."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from triage.errors import SourceFailure, ToolFailure
from triage.maker.cases_format import AnswerEntry, CaseEntry, Fault, ParentEntry
from triage.maker.cases_query import answer_problem, query_of
from triage.model.canonical import canonical_json, sha256_hex
from triage.model.case import ID_CHARS, LabelledCase, RecordedAnswer, case_id
from triage.model.decision import NodeId
from triage.model.query import query_document
from triage.model.verdict import Clause, Truth, Verdict
from triage.model.verdict_bounds import MAX_NAME, is_text, verdict_problem
from triage.sop.located import YamlPath, plain
from triage.sop.nearest import Nearest
from triage.sop.procedure import Node, Sop
from triage.sop.references import value_problem
from triage.sop.sites import Sites

ANSWER_FORMS = (
    'write {"rows": [{…}]}, {"series": [[labels, times, values]]}, '
    '{"readings": [[labels, value]]} or {"json": …}'
)
_FAILURES = frozenset(failure.value for failure in (*SourceFailure, *ToolFailure))
_SHOWN = 5  # names that a fix lists
_HEX = frozenset("0123456789abcdef")


class CaseCheck:
    """Checks the lines of one node, and makes cases of them."""

    def __init__(self, node: Node, sop: Sop, sites: Sites) -> None:
        self._node = node
        self._sop = sop
        self._sites = sites
        self._before = nodes_before(sop, node.node)
        self._nearest = Nearest()

    def case(self, entry: CaseEntry) -> tuple[LabelledCase | None, list[Fault]]:
        """The case, None when a fault is more than a warning."""
        found = [*self._place(entry), *self._params(entry), *self._parents(entry)]
        answers, faults = self._answers(entry)
        found += faults
        if entry.subject is not None and not _is_subject(entry.subject):
            found.append(Fault(("subject",), "holds a NUL", "name the asset"))
        asked = case_id(
            self._node.node,
            entry.warehouse,
            entry.timestamp,
            entry.context.entity,
            entry.context.params,
        )
        name = entry.case or asked
        if name != asked and _is_id(name):
            problem = f"`{name}` is the id of another case: this line asks something else"
            found.append(Fault(("case",), problem, "leave `case` out: it is computed", True))
            name = asked
        if not all(fault.warning for fault in found):
            return None, found
        case = LabelledCase(
            case_id=name,
            node=self._node.node,
            warehouse=entry.warehouse,
            timestamp=entry.timestamp,
            expected=entry.expected,
            entity=entry.context.entity,
            labels=entry.context.labels,
            params=entry.context.params,
            parents={node: _verdict(one) for node, one in entry.context.parents.items()},
            subject=entry.subject,
            answers=tuple(answers),
            origin=entry.origin,
            by=entry.by,
            note=entry.note,
            split=entry.split,
        )
        return case, found

    def _place(self, entry: CaseEntry) -> Iterator[Fault]:
        own, given = self._node.node, entry.node
        if given is not None and given != own:
            if given in self._sop.nodes:
                fix = f"move the line to the cases of {given}, or correct it"
            else:
                fix = self._nearest(given, self._sop.nodes) or f'write "{own}", or leave it out'
            yield Fault(("node",), f"is `{plain(given)}`, among the cases of {own}", fix)
        site, known = entry.warehouse, self._sites.profiles
        if site and known and site not in known:
            fix = self._nearest(site, known) or f"add the site to {self._sites.file}"
            yield Fault(("warehouse",), f"`{plain(site)}` is not in the sites file", fix)

    def _params(self, entry: CaseEntry) -> Iterator[Fault]:
        for name, value in entry.context.params.items():
            path: YamlPath = ("context", "params", name)
            param = self._sop.params.get(name)
            if param is None:
                fix = self._nearest(name, self._sop.params) or "remove it"
                yield Fault(path, "the SOP has no such param", fix)
            elif problem := value_problem(param, value):
                yield Fault(path, problem, f"see `params` in {self._sop.file}")

    def _parents(self, entry: CaseEntry) -> Iterator[Fault]:
        for name, one in entry.context.parents.items():
            path: YamlPath = ("context", "parents", name)
            if name not in self._before:
                yield Fault(path, *self._no_parent(name))
            elif problem := verdict_problem(_verdict(one)):
                yield Fault(path, problem, "correct it")

    def _no_parent(self, name: str) -> tuple[str, str]:
        own = self._node.node
        if name in self._sop.actions:
            return "is an action of the SOP", "name nodes: only they have verdicts"
        leading = sorted(n for n in self._before if own in _following(self._sop.nodes[NodeId(n)]))
        listed = ", ".join(leading[:_SHOWN]) + (", …" if len(leading) > _SHOWN else "")
        fix = f"name nodes before it: {listed}" if leading else f"remove it: {own} comes first"
        if name in self._sop.nodes:
            return f"does not come before {own}", fix
        return "the SOP has no such node", self._nearest(name, self._before) or fix

    def _answers(self, entry: CaseEntry) -> tuple[list[RecordedAnswer], list[Fault]]:
        answers: list[RecordedAnswer] = []
        faults: list[Fault] = []
        seen: dict[str, int] = {}
        for index, one in enumerate(entry.answers):
            path: YamlPath = ("answers", index)
            try:
                query = query_of(one.query)
            except ValueError as error:
                faults.append(Fault((*path, "query"), str(error), "write it as decisions show it"))
                continue
            document = query_document(query)
            if query.source not in self._node.sources:
                declared = ", ".join(self._node.sources) or "none"
                problem = f"asks {plain(query.source)!r}, which the node does not declare"
                fix = f"no tool of it may ask that; declared: {declared}"
                faults.append(Fault((*path, "query"), problem, fix, True))
            digest = sha256_hex(canonical_json(document))
            if digest in seen:
                problem = f"asks what answers[{seen[digest]}] asks"
                faults.append(Fault((*path, "query"), problem, "remove one of them"))
            seen.setdefault(digest, index)
            answer, fault = _answer(one, path, document)
            faults += fault
            answers.append(answer)
        return answers, faults


def failure_known(reason: str) -> bool:
    """Whether a recorded query can fail so again."""
    return reason in _FAILURES


def nodes_before(sop: Sop, node: NodeId) -> frozenset[NodeId]:
    """The nodes from which some walk leads to `node`."""
    leading: dict[str, list[NodeId]] = {}
    for one in sop.nodes.values():
        for target in _following(one):
            leading.setdefault(target, []).append(one.node)
    found: set[NodeId] = set()
    stack = list(leading.get(node, ()))
    while stack:
        name = stack.pop()
        if name not in found:
            found.add(name)
            stack += leading.get(name, ())
    return frozenset(found)


def _following(node: Node) -> set[str]:
    return {target for targets in node.targets.values() for target in targets}


def _answer(
    entry: AnswerEntry, path: YamlPath, query: Mapping[str, Any]
) -> tuple[RecordedAnswer, list[Fault]]:
    if (entry.answer is None) == (not entry.failure):
        problem = "has neither an answer nor a failure" if entry.answer is None else "has both"
        fix = "give `answer`, or `failure` where there was none"
        return RecordedAnswer(query, b""), [Fault(path, problem, fix)]
    if entry.answer is None:
        failed = RecordedAnswer(query, b"", entry.failure)
        if entry.failure in _FAILURES:
            return failed, []
        fix = Nearest()(entry.failure, _FAILURES) or f"one of {', '.join(sorted(_FAILURES))}"
        problem = f"`{plain(entry.failure)}` is no reason that a query fails for"
        return failed, [Fault((*path, "failure"), problem, fix)]
    body = canonical_json(entry.answer)
    problem = answer_problem(str(query["kind"]), entry.answer, body)
    faults = [Fault((*path, "answer"), problem, ANSWER_FORMS)] if problem else []
    return RecordedAnswer(query, body), faults


def _verdict(entry: ParentEntry) -> Verdict:
    return Verdict(
        value=Truth(entry.value),
        clauses=tuple(
            Clause(one.name, one.observed, one.op, one.threshold, one.unit, one.holds)
            for one in entry.clauses
        ),
        explanation=entry.explanation,
        subject=entry.subject,
    )


def _is_subject(text: str) -> bool:
    return is_text(text, MAX_NAME) and "\0" not in text


def _is_id(name: str) -> bool:
    return len(name) == ID_CHARS and _HEX.issuperset(name)
