"""`python -m bench chaos`: the plan, the alerts, the faults, the quiet, and what is true then."""

from __future__ import annotations

import asyncio
import shutil
import signal
import tempfile
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import orjson
import uvloop

from bench.chaos.checks import SHOWN, Facts, Findings, check
from bench.chaos.clock import PlanClock
from bench.chaos.facts import read_asks, read_store
from bench.chaos.faults import Controller, Targets, unshown
from bench.chaos.figures import deaths, faults, kept_rows, packages, recovered, totals
from bench.chaos.journal import Journal, read_journal
from bench.chaos.messages import fill_messages, make_messages
from bench.chaos.options import Options
from bench.chaos.plan import Fault, Kind, make_plan
from bench.chaos.readiness import ReadinessLog, darkness
from bench.chaos.recovery import recoveries
from bench.chaos.sender import Sender
from bench.chaos.servers import versions
from bench.chaos.settling import Settled, settle, until_ready
from bench.chaos.world import World, made_world
from bench.watching import Progress, Say, silent, unseen

START_S = 180.0


class ChaosFailed(Exception):
    """The run could not begin; the message says why."""


@dataclass(slots=True)
class Ended:
    """What is known once everything has stopped."""

    figures: dict[str, Any]
    found: Findings
    files: dict[str, Any] = field(default_factory=dict)
    """What the kept folder gets of it."""


def measure_chaos(
    options: Options, progress: Progress = unseen, say: Say = silent, *, keep: bool = False
) -> tuple[dict[str, Any], Findings]:
    """The figures, and what is wrong. With something wrong, or `keep`, the folder of the run is
    kept, and `kept` names it. Raises MissingServer, and ChaosFailed when it cannot begin."""
    plan = make_plan(options)
    say(f"{_counted(plan)}; the same again: {options.again}")
    folder = Path(tempfile.mkdtemp(prefix="triage-chaos-"))
    done_with = False
    try:
        with made_world(options, folder) as world:
            ended = uvloop.run(_until_told(_run(options, plan, world, progress, say)))
        done_with = ended.found.ok and not keep
        if not done_with:
            for name, content in ended.files.items():
                (folder / name).write_bytes(orjson.dumps(content, option=orjson.OPT_INDENT_2))
            ended.figures["kept"] = str(folder)
        return ended.figures, ended.found
    finally:
        if done_with:
            shutil.rmtree(folder)
        else:
            say(f"logs, journal and receipts are kept in {folder}")


async def _until_told(running: Any) -> Ended:
    """SIGTERM ends it as Ctrl-C does: with everything that was started."""
    task = asyncio.ensure_future(running)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    ended: Ended = await task
    return ended


async def _run(
    options: Options, plan: Sequence[Fault], world: World, progress: Progress, say: Say
) -> Ended:
    ports = [replica.port for replica in world.replicas]
    readiness = ReadinessLog(ports)
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(world.receiver)
        for link in world.links.values():
            await stack.enter_async_context(link)
        journal = Journal(world.folder / "journal.jsonl")
        stack.callback(journal.close)
        through = [world.links[f"sender-{number}"].port for number in range(options.replicas)]
        sender = Sender(through, journal, options.seed)
        stack.push_async_callback(sender.close)
        quiet: _Quiet | None = None
        controller: Controller | None = None
        async with asyncio.TaskGroup() as group:
            sides = [group.create_task(replica.supervise()) for replica in world.replicas]
            unready = await until_ready(readiness, START_S)
            if not unready:
                sides.append(group.create_task(readiness.watch()))
                began, clock = time.monotonic(), PlanClock(readiness.answering)
                controller = _controller(options, plan, world, sender, clock, progress, say)
                async with asyncio.TaskGroup() as doing:
                    doing.create_task(controller.run())
                    doing.create_task(sender.send_when_due(make_messages(options), clock))
                say("the faults are over; waiting until nothing is pending")
                quiet = await _quiet(options, world, sender, ports, readiness)
                quiet.took_s = time.monotonic() - began
            for side in sides:
                side.cancel()
        if quiet is None or controller is None:
            words = [one.last_words() for one in world.replicas]
            raise ChaosFailed("; ".join(unready) + "\n" + "\n".join(words))
        for replica in world.replicas:
            if code := await replica.terminate():
                quiet.settled.limping.append(f"{replica.name} ended with {code} when told to")
    return await asyncio.to_thread(_ended, options, world, sender, controller, readiness, quiet)


@dataclass(slots=True, kw_only=True)
class _Quiet:
    """`drops` are the connections that were cut; durations are seconds."""

    settled: Settled
    settled_s: float
    drops: int
    resident_mb: list[float]
    took_s: float = 0.0


async def _quiet(
    options: Options,
    world: World,
    sender: Sender,
    ports: Sequence[int],
    readiness: ReadinessLog,
) -> _Quiet:
    drops = sum(link.drops for link in world.links.values())
    for link in world.links.values():
        link.disarm()
    world.receiver.behave()
    began = time.monotonic()
    settled = await settle(sender, ports, readiness, within_s=options.settle_s)
    return _Quiet(
        settled=settled,
        settled_s=time.monotonic() - began,
        drops=drops,
        resident_mb=[round(one.resident_mb(), 1) for one in world.replicas if one.is_alive],
    )


def _controller(
    options: Options,
    plan: Sequence[Fault],
    world: World,
    sender: Sender,
    clock: PlanClock,
    progress: Progress,
    say: Say,
) -> Controller:
    def fill(index: int, fault: Fault) -> None:
        for message in fill_messages(options, index, fault.alerts):
            sender.send(message)

    return Controller(
        plan=plan,
        targets=Targets(
            replicas=world.replicas,
            links=world.links,
            broker=world.broker,
            postgres=world.postgres,
            fill=fill,
        ),
        clock=clock,
        say=say,
        progress=progress,
        seconds=options.seconds,
    )


def _ended(
    options: Options,
    world: World,
    sender: Sender,
    controller: Controller,
    readiness: ReadinessLog,
    quiet: _Quiet,
) -> Ended:
    rows = read_store(world.store_url)
    settled = quiet.settled
    facts = Facts(
        promises=read_journal(world.folder / "journal.jsonl"),
        sent=sender.sent.ids,
        rows=rows,
        receipts=world.receiver.receipts,
        ledger=settled.ledger,
        unsent=settled.unsent,
        rejected=sender.sent.rejected,
        limping=settled.limping,
        unready=unshown(controller.outages, readiness.said, world.replicas),
    )
    found = check(facts)
    outages = [(one.since, one.until) for one in controller.outages]
    held = recoveries(
        deaths(world.replicas),
        read_asks(world.records),
        rows.alerts,
        rows.decisions,
        dark=darkness(readiness.said, options.replicas, outages),
        outages=outages,
    )
    plan = [controller.done.get(n, fault.document()) for n, fault in enumerate(controller.plan)]
    figures = {
        **totals(facts, found),
        **faults(controller, world.replicas, quiet.drops),
        **recovered(held, options),
        "refused": sender.sent.refused,
        "unanswered": sender.sent.unanswered,
        "requests": sender.sent.requests,
        "settled_s": round(quiet.settled_s, 1),
        "took_s": round(quiet.took_s, 1),
        "longest_pause_s": round(controller.clock.longest_step_s, 3),
        "stood_still_s": round(controller.clock.stood_still_s, 1),
        "resident_mb_end": quiet.resident_mb,
        "exits": [asdict(one) for replica in world.replicas for one in replica.exits],
        "findings": {name: ids[:SHOWN] for name, ids in found.document().items() if ids},
        "ledger": dict(settled.ledger),
        "seed": options.seed,
        "options": options.document(),
        "again": options.again,
        "plan": plan,
        "versions": {**versions(options.queue, options.store), **packages()},
    }
    return Ended(
        figures=figures,
        found=found,
        files={
            "findings.json": found.document(),
            "readiness.json": [asdict(one) for one in readiness.said],
            "rows.json": kept_rows(rows),
        },
    )


def _counted(plan: Sequence[Fault]) -> str:
    counts = {kind: sum(fault.kind is kind for fault in plan) for kind in Kind}
    return "plan: " + ", ".join(f"{count} x {kind}" for kind, count in counts.items() if count)
