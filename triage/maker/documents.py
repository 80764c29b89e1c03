"""What came of making a tool, as JSON types: printed, and kept beside the version."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from triage.fallback.masking import Mask
from triage.maker.ambiguity import ambiguity_document
from triage.maker.model import Gate, Made, Round, Said, Score
from triage.maker.scoring import failures
from triage.maker.trace_json import trace_json
from triage.ports import WatchFinding
from triage.sop.procedure import Node


def made_document(made: Made, ambiguous: Sequence[WatchFinding] = ()) -> dict[str, Any]:
    """Without what was said, shown or asked: counts, and words for people."""
    return {
        "node": made.node,
        "version": made.version,
        "passed": made.passed and bool(made.gates),
        "problem": made.problem,
        "unavailable": made.unavailable,
        "best": None if made.best is None else made.best.number,
        "sha256": "" if made.best is None else made.best.sha256,
        "train": score_document(made.train),
        "heldout": score_document(made.heldout),
        "rounds": [round_document(one) for one in made.rounds],
        "gates": [gate_document(gate) for gate in made.gates],
        "traces": [
            {"origin": trace.origin, "verdict": trace.verdict, "right": trace.right}
            for trace in made.traces
        ],
        "ambiguities": [ambiguity_document(finding) for finding in ambiguous],
        "exchanges": len(made.transcript),
        "tokens": made.tokens,
        "seconds": round(made.seconds, 3),
    }


def record_document(
    made: Made,
    node: Node,
    ambiguous: Sequence[WatchFinding],
    *,
    mask: Mask,
    model: str,
    prompt_version: str,
    prompt_sha256: str,
) -> dict[str, Any]:
    """All of it, masked: what lies beside a version. Bodies of answers are not in it."""
    document = made_document(made, ambiguous)
    document |= {
        "model": model,
        "prompt_version": prompt_version,
        "prompt_sha256": prompt_sha256,
        "sop_text_sha256": node.text_sha256,
        "rounds": [{**round_document(one), "code": one.candidate.text} for one in made.rounds],
        "traces": [trace_json(node, trace) for trace in made.traces],
        "transcript": [said_document(said) for said in made.transcript],
    }
    masked: dict[str, Any] = _masked(document, mask)
    return masked


def score_document(score: Score | None) -> dict[str, Any] | None:
    """`confusion` maps an expected word to what came, and how often."""
    if score is None:
        return None
    confusion: dict[str, dict[str, int]] = {}
    for (expected, got), count in sorted(score.confusion.items()):
        confusion.setdefault(expected, {})[got] = count
    return {
        "passed": score.passed,
        "total": score.total,
        "rate": round(score.rate, 6),
        "failed": failures(score),
        "confusion": confusion,
        "p50_ms": round(score.p50_ms, 3),
        "p95_ms": round(score.p95_ms, 3),
        "max_queries": score.max_queries,
        "wrong": [mismatch.case.case_id for mismatch in score.mismatches],
    }


def round_document(one: Round) -> dict[str, Any]:
    return {
        "number": one.number,
        "sha256": one.sha256,
        "dynamic": one.candidate.dynamic,
        "reads_parents": list(one.candidate.reads_parents),
        "score": score_document(one.score),
        "diagnosis": one.diagnosis,
        "blamed": one.blamed,
        "refused": one.refused,
    }


def gate_document(gate: Gate) -> dict[str, Any]:
    return {"name": gate.name, "passed": gate.passed, "detail": gate.detail}


def said_document(said: Said) -> dict[str, Any]:
    return {
        "step": said.step,
        "round": said.round,
        "messages": [{"role": role, "content": content} for role, content in said.messages],
        "reply": said.reply,
        "prompt_tokens": said.prompt_tokens,
        "completion_tokens": said.completion_tokens,
        "elapsed_ms": round(said.elapsed_ms, 3),
    }


def _masked(value: Any, mask: Mask) -> Any:
    match value:
        case str():
            # A lone surrogate of a model's reply has no bytes.
            return mask.clean(value.encode(errors="replace").decode())
        case Mapping():
            return {key: _masked(one, mask) for key, one in value.items()}
        case list() | tuple():
            return [_masked(one, mask) for one in value]
        case _:
            return value
