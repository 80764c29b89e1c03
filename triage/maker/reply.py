"""Takes a reply of the model apart: a candidate that can be tried, or why there is none."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator
from typing import NamedTuple

from triage.errors import Finding
from triage.fallback.reply import read_reply, split_thinking
from triage.library.policy import check_source
from triage.maker.prompt import MakerPrompts
from triage.maker.task import Task
from triage.model.canonical import sha256_hex
from triage.model.decision import NodeId
from triage.ports import Completion
from triage.trial.model import Candidate

MAX_CODE = 48 * 1024
"""Bytes of a candidate: a tool judges one node."""
MAX_FAULTS = 8  # of the policy, told at once
MAX_DIAGNOSIS = 2_000  # characters
LEAST_QUOTED = 3
"""Words of a quote: fewer are in any sentence."""
PARENTS = "parents"

_SENTENCE = re.compile(
    r"^[ \t>*-]*sentence[ \t]*:[ \t*]*(.+?)[ \t*]*$", re.IGNORECASE | re.MULTILINE
)
_END = re.compile(r"(?<=[.!?])\s+(?=[^\s])")
_QUOTES = "\"'“”„‘’«»"  # noqa: RUF001 - models quote in all ways


class Taken(NamedTuple):
    """`code` is "" when the reply held none. `candidate` is None when it cannot be tried; then
    `refused` says why, in words for the next prompt."""

    code: str
    candidate: Candidate | None
    refused: str = ""

    @property
    def sha256(self) -> str:
        """Of the bytes that would be registered, "" without any."""
        return sha256_hex(self.code.encode()) if self.code else ""


class Diagnosis(NamedTuple):
    """`blamed` is the sentence of the node's text that it quotes, whole; "" when it quotes none."""

    text: str
    blamed: str = ""


def read_candidate(completion: Completion, task: Task, prompts: MakerPrompts) -> Taken:
    """Nothing of the code runs. Never raises for what the reply is."""
    # Code without a fence is never taken for a file: half of one parses as well.
    reply = read_reply(completion, callables=(), code_bytes=MAX_CODE)
    if reply.problem is not None:
        return Taken("", None, prompts.phrase(reply.problem.value, **reply.values))
    code = f"{reply.code.strip()}\n"
    with warnings.catch_warnings():
        # An odd escape in a model's code is no warning of ours.
        warnings.simplefilter("ignore")
        tree = _parsed(code)
        dynamic = tree is not None and _is_dynamic(tree)
        checked = check_source(
            code.encode(), file=f"{task.node}.py", node=task.node, dynamic=dynamic
        )
    faults = [finding for finding in checked.findings if not finding.warning]
    if faults or tree is None:
        said = [f"- {_fault(finding)}" for finding in faults[:MAX_FAULTS]]
        if more := len(faults) - len(said):
            said.append(prompts.phrase("policy_more", count=str(more)))
        return Taken(code, None, prompts.phrase("policy", faults="\n".join(said)))
    hidden = _hidden_reads(tree)
    if hidden:
        return Taken(code, None, prompts.phrase("parents_hidden", line=str(hidden[0])))
    reads = tuple(dict.fromkeys(NodeId(name) for name in _reads(tree)))
    unsure = [name for name in reads if name not in task.readable]
    if unsure:
        may = (
            f"It may read {', '.join(task.readable)}."
            if task.readable
            else "It may read no verdict."
        )
        return Taken(code, None, prompts.phrase("parents_unsure", node=unsure[0], may=may))
    return Taken(
        code,
        Candidate(
            node=task.node,
            text=code,
            sources=tuple(task.sources),
            dynamic=dynamic,
            reads_parents=reads,
        ),
    )


def read_diagnosis(completion: Completion, text: str) -> Diagnosis:
    """`text` is the node's. Never raises; a reply that says nothing is an empty diagnosis."""
    _, reply = split_thinking(completion.text.encode(errors="replace").decode())
    said = reply.strip()
    quoted = (found[1].strip(_QUOTES + " ") for found in _SENTENCE.finditer(said))
    blamed = next((whole for quote in quoted if (whole := sentence_with(text, quote))), "")
    return Diagnosis(said[:MAX_DIAGNOSIS], blamed)


def sentences(text: str) -> list[str]:
    """Of a node's text, each on one line."""
    return [part for part in _END.split(" ".join(text.split())) if part]


def sentence_with(text: str, quote: str) -> str:
    """The sentence that the quote is verbatim of, "" when it is of none. A quote may be a part of
    its sentence, with its white space as it likes."""
    wanted = " ".join(quote.split()).rstrip(".!?…").strip()
    if len(wanted.split()) < LEAST_QUOTED:
        return ""
    return next((one for one in sentences(text) if wanted in one), "")


def _fault(finding: Finding) -> str:
    where = f"line {finding.line}: " if finding.line else ""
    fix = f" — {finding.fix}" if finding.fix else ""
    return f"{where}{finding.problem}{fix}"


def _parsed(code: str) -> ast.Module | None:
    """None for what the policy will say is no Python."""
    try:
        return ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _is_dynamic(tree: ast.Module) -> bool:
    return any(
        isinstance(statement, ast.AsyncFunctionDef) and statement.name == "evaluate"
        for statement in tree.body
    )


# --- what it reads of its parents ---------------------------------------------------------------


def _reads(tree: ast.Module) -> Iterator[str]:
    """Nodes whose verdicts the source names."""
    for node in ast.walk(tree):
        read = _read(node)
        if read is not None:
            yield read[1]


def _read(node: ast.AST) -> tuple[ast.Attribute, str] | None:
    """The `….parents` of one read, and the node that it names: `parents["x"]`, `parents.get("x")`,
    `"x" in parents`."""
    match node:
        case ast.Subscript(
            value=ast.Attribute(attr="parents") as read, slice=ast.Constant(value=str(name))
        ):
            return read, name
        case ast.Call(
            func=ast.Attribute(attr="get", value=ast.Attribute(attr="parents") as read),
            args=[ast.Constant(value=str(name)), *_],
        ):
            return read, name
        case ast.Compare(
            left=ast.Constant(value=str(name)),
            ops=[ast.In() | ast.NotIn()],
            comparators=[ast.Attribute(attr="parents") as read],
        ):
            return read, name
        case _:
            return None


def _hidden_reads(tree: ast.Module) -> list[int]:
    """Lines that read parents without saying which, the first of them first."""
    seen = {id(read[0]) for node in ast.walk(tree) if (read := _read(node)) is not None}
    return sorted(
        getattr(node, "lineno", 0)
        for node in ast.walk(tree)
        if (isinstance(node, ast.Attribute) and node.attr == PARENTS and id(node) not in seen)
        or _asks_by_name(node)
    )


def _asks_by_name(node: ast.AST) -> bool:
    """`getattr(context, "parents")`, or a pattern that takes it."""
    match node:
        case ast.Call(
            func=ast.Name(id="getattr" | "hasattr"), args=[_, ast.Constant(value="parents"), *_]
        ):
            return True
        case ast.MatchClass(kwd_attrs=names):
            return PARENTS in names
        case _:
            return False
