"""`triage make`: from a configuration and a node to a version, or to what speaks against one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from triage.app.make_parts import Workbench, active_version, kind_of, opened
from triage.errors import ConfigError, InvalidFiles
from triage.fallback.masking import Mask
from triage.maker.ambiguity import ambiguities
from triage.maker.cases_file import cases_path, read_cases
from triage.maker.cases_split import Split, split_cases
from triage.maker.gates import NOTHING, Allowed, CandidateGates
from triage.maker.loop import Maker, MakeRequest
from triage.maker.model import CaseTrace, Made
from triage.maker.prompt import MakerPrompts
from triage.maker.register import Registrar
from triage.maker.seen import seen
from triage.maker.task import task_of
from triage.maker.traces import load_traces
from triage.maker.transcript import ModelLimits
from triage.model.decision import NodeId
from triage.ports import Clock, WatchFinding

LEAST_WORDS = 2
"""Verdicts among the training cases: of one alone, a tool that always says it would pass."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """One making. `maker` answers for the version, "" for the model itself; `gap` is the id of the
    gap it is for, `given` are traces from there. With `dry_run` nothing is written."""

    node: NodeId
    rounds: int
    traces: bool = True
    repair: bool = True
    dry_run: bool = False
    allowed: Allowed = NOTHING
    maker: str = ""
    gap: str = ""
    given: Sequence[CaseTrace] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """`ambiguous` are sentences of the node's text that the labels speak against. `train` and
    `heldout` are how many cases there were."""

    made: Made
    ambiguous: tuple[WatchFinding, ...]
    train: int
    heldout: int


def cases_of(bench: Workbench, node: NodeId) -> Split:
    """The node's cases, parted. Blocking: reads files. Raises InvalidFiles for a file that is
    wrong, ConfigError where there are too few cases."""
    path = cases_path(bench.settings.sop.library, node)
    read = read_cases(path, bench.sop, bench.sites)
    if read.errors:
        raise InvalidFiles(read.findings)
    split = split_cases(read.cases, sites=bench.sites)
    words = sorted({case.expected for case in split.train})
    add = f"add some with `triage cases add {node} FILE` — `triage cases check {node}` says of what"
    if not read.cases:
        raise ConfigError(f"{path}: there is no labelled case of {node}: {add}")
    if not split.train or not split.heldout:
        lacking = "held-out" if split.train else "training"
        raise ConfigError(
            f"{path}: of {len(read.cases)} cases none is a {lacking} one: they are parted by time,"
            f" or by `split` in a case; {add}"
        )
    if len(words) < LEAST_WORDS:
        raise ConfigError(
            f"{path}: all {len(split.train)} training cases expect {words[0]}, so a tool that"
            f" always says so would pass: {add}"
        )
    return split


async def make_tool(
    bench: Workbench,
    wanted: Wanted,
    split: Split,
    clock: Clock,
    *,
    told: Callable[[str], None] = lambda _: None,
) -> Outcome:
    """Makes, tests and, unless a gate says no, registers. `told` gets a line at every step.

    Raises ConfigError for what would keep a daemon from starting, and for a library that cannot be
    written; SandboxFailed when there is no sandbox. Cancelled, nothing is registered.
    """
    settings, node = bench.settings, wanted.node
    library = settings.sop.library
    mask = Mask(settings.fallback.mask, settings.secrets())
    prompts = MakerPrompts.load()
    active = await asyncio.to_thread(active_version, bench, node)
    given = await asyncio.to_thread(load_traces, library, node) if wanted.traces else []
    async with opened(bench, node, mask=mask, clock=clock, collects=wanted.traces) as parts:
        maker = Maker(
            model=parts.model,
            trials=parts.trials,
            settings=parts.settings,
            seen=lambda one, case: seen(one, mask=mask, timestamp=case.timestamp),
            prompts=prompts,
            mask=mask,
            limits=ModelLimits(
                context_tokens=settings.make.context_tokens,
                reply_tokens=settings.make.max_reply_tokens,
                request_timeout_s=settings.make.request_timeout_s,
            ),
            monotonic=clock.monotonic,
            collector=parts.collector,
            gates=CandidateGates(
                active=active,
                cases=split.train,
                heldout_cases=split.heldout,
                trials=parts.trials,
                settings=parts.settings,
                budget_ms=settings.make.budget_ms,
                allowed=wanted.allowed,
            ),
            told=told,
        )
        made = await maker.make(
            MakeRequest(
                task=task_of(
                    bench.sop,
                    node,
                    kinds={name: kind_of(one) for name, one in settings.sources.items()},
                    sites=[
                        *(bench.sites.profile(case.warehouse).site for case in split.train),
                        *(profile.site for profile in bench.sites.profiles.values()),
                    ],
                ),
                train=split.train,
                heldout=split.heldout,
                rounds=wanted.rounds,
                given=(*wanted.given, *given),
                traces=wanted.traces,
                repair=wanted.repair,
            )
        )
    found = ambiguities(
        node,
        bench.sop.nodes[node].text,
        made.rounds,
        tool_sha256=made.best.sha256 if made.best is not None else "",
        at=clock.now(),
    )
    registrar = Registrar(
        root=library,
        sop=bench.sop,
        mask=mask,
        prompts=prompts,
        model=parts.model.name,
        maker=wanted.maker,
        gap=wanted.gap,
        note=wanted.allowed.note,
    )
    if not wanted.dry_run:
        if made.passed and made.gates:
            made = registrar.register(made, found, at=clock.now())
        else:
            registrar.keep(made, found)
    return Outcome(
        made=made,
        ambiguous=tuple(found),
        train=len(split.train),
        heldout=len(split.heldout),
    )
