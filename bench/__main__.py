"""`python -m bench NAME --json FILE`: what is measured, as ratios within one run."""

from __future__ import annotations

import asyncio
import os
import time
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
import uvloop

from bench import deliveries, prefetch, start
from bench.drift import command as drift
from bench.fallback import command as fallback
from bench.fallback.options import (
    Answering,
    LlmModel,
    LlmUrl,
    TimeoutS,
    staff_for,
)
from bench.make import command as make
from bench.peers import overhead
from bench.saying import JsonFile, Sealed, counting, say, servers_needed, show, write
from bench.shadow import command as shadow

application = typer.Typer(name="bench", no_args_is_help=True, add_completion=False, help=__doc__)
deliveries.add_to(application)
drift.add_to(application)
shadow.add_to(application)
fallback.add_to(application)
make.add_to(application)
Rounds = Annotated[int, typer.Option(min=1, help="How often the contenders take turns.")]


class Part(StrEnum):
    decisions = "decisions"
    fallback = "fallback"
    deliveries = "deliveries"
    making = "making"


class Mode(StrEnum):
    layer = "layer"
    subtree = "subtree"


@application.command("all")
def all_command(
    part: Annotated[Part, typer.Argument(help="What it concerns.")] = Part.decisions,
) -> None:
    """Everything that concerns a part, into bench/results: each takes from half an hour to an hour
    on two cores.

    Ends with 1 when a step failed, or decided otherwise than the annotator.
    """
    from bench import programme

    if asyncio.run(programme.run(say, programme.PARTS[part])):
        raise typer.Exit(1)


# --- the dock ---------------------------------------------------------------------------------


@application.command("world")
def world_command(json_file: JsonFile = None, sealed: Sealed = False) -> None:
    """Build the dock's world and what is served from it, unless it is there."""
    from bench.dock import dock_files
    from bench.world.world import OPEN_SEED, SEALED_SEED

    began = time.perf_counter()
    files = dock_files(SEALED_SEED if sealed else OPEN_SEED)
    minutes = files.world.minutes
    figures = {
        "seconds": round(time.perf_counter() - began, 1),
        "sites": minutes.sites,
        "days": minutes.minutes // 1440,
        "episodes": len(minutes.episodes),
        "warehouse_mb": round(files.warehouse.stat().st_size / 1e6),
    }
    show("world", figures, json_file)


@application.command("replay")
def replay_command(
    alerts: Annotated[int, typer.Option(min=1, help="How many historical alerts.")] = 1500,
    json_file: JsonFile = None,
    sealed: Sealed = False,
    prefetch_mode: Annotated[
        Mode, typer.Option("--prefetch", help="Ask a layer's queries at once, or the subtree's.")
    ] = Mode.layer,
    rate: Annotated[
        float, typer.Option(min=0, help="Alerts per second, as a Poisson process; 0: no waiting.")
    ] = 0.0,
    at_once: Annotated[int, typer.Option(min=1, help="Alerts under way at once.")] = 1,
    plots: Annotated[Path | None, typer.Option(help="Folder to write pictures into.")] = None,
    mode: Annotated[
        Answering,
        typer.Option(
            help="Who answers a node: its tool (direct), an agent that calls the tool (delegated),"
            " an agent that writes code (codeact)."
        ),
    ] = Answering.direct,
    llm_url: LlmUrl = "",
    llm_model: LlmModel = "",
    timeout_s: TimeoutS = 120.0,
    turn_latency_s: Annotated[
        float, typer.Option(min=0, help="Modelled: seconds a turn takes beside its tokens.")
    ] = 0.0,
    prompt_rate: Annotated[
        float, typer.Option(min=0.1, help="Modelled: prompt tokens a second.")
    ] = 85.0,
    generated_rate: Annotated[
        float, typer.Option(min=0.1, help="Modelled: generated tokens a second.")
    ] = 30.0,
) -> None:
    """The dock's historical alerts, decided and scored.

    Against the annotator's decisions, and against the faults that truly were. Ends with 1 when a
    decision is not the annotator's, unless a real model answered.

    With agents, the latency measured is that of everything but a model, since the scripted
    endpoint answers at once. What a model of the stated speed would add is printed apart.
    """
    # The dock needs numpy and a second of imports; the other commands do not.
    from bench.fallback.modelled import ModelSpeed
    from bench.fallback.modes import Mode as AnsweringMode
    from bench.replay import history, report
    from bench.world.world import OPEN_SEED, SEALED_SEED

    report.quiet()
    seed = SEALED_SEED if sealed else OPEN_SEED
    with counting("alerts") as count, staff_for(mode, llm_url, llm_model, timeout_s) as staff:
        run = uvloop.run(
            history.replay(
                count=alerts,
                seed=seed,
                prefetch=prefetch_mode.value,
                at_once=at_once,
                rate_per_s=rate,
                mode=AnsweringMode(mode.value),
                staff=staff,
                progress=count,
                say=say,
            )
        )
    figures = history.figures(
        run,
        ModelSpeed(
            turn_s=turn_latency_s,
            prompt_tokens_per_s=prompt_rate,
            generated_tokens_per_s=generated_rate,
        ),
    )
    report.print_report(run, figures)
    if plots is not None:
        name = "sealed" if sealed else "open"
        for path in report.plot(run, figures, plots, name):
            say(str(path))
    write(figures, json_file)
    if figures["errors"] and not llm_url:
        raise typer.Exit(1)


@application.command("cases")
def cases_command(json_file: JsonFile = None) -> None:
    """Every tool against its labelled cases, and the cases against mutants of the tools."""
    from bench.cases import judging

    with counting("tools") as count:
        figures = judging.measure(progress=count, processes=os.cpu_count() or 1)
    show("cases", figures, json_file)


@application.command("real-servers")
def real_servers_command(json_file: JsonFile = None) -> None:
    """150 alerts on a real Prometheus and PostgreSQL, and on the embedded sources."""
    from bench.real_servers import comparison
    from bench.replay import report

    report.quiet()
    with counting("alerts") as count, servers_needed():
        figures = comparison.measure(progress=count, say=say)
    show("real servers", figures, json_file)


@application.command("peers")
def peers_command(
    json_file: JsonFile = None,
    alerts: Annotated[int, typer.Option(min=1, help="How many historical alerts.")] = 80,
    rounds: Rounds = 2,
) -> None:
    """The dock's alerts through the engine, a hand-written loop and LangGraph, all the same way."""
    from bench.peers import dock
    from bench.replay import report

    report.quiet()
    with counting("walks") as count:
        figures = asyncio.run(dock.measure(alerts=alerts, rounds=rounds, progress=count, say=say))
    show("peers on the dock", figures, json_file)


@application.command("growth")
def growth_command(
    json_file: JsonFile = None,
    decisions: Annotated[
        int, typer.Option(min=1000, help="Decisions in the large store.")
    ] = 1_000_000,
) -> None:
    """An SOP of 4,400 nodes, and a store of a million decisions."""
    from bench.dock import ROOT
    from bench.growth import sop, store

    with counting("SOP") as count:
        figures = sop.measure_sop(ROOT, count)
    with counting("store") as count:
        figures |= store.measure_store(decisions, count)
    show("growth", figures, json_file)


class Project(StrEnum):
    dock = "dock"
    small = "small"


@application.command("load")
def load_command(
    json_file: JsonFile = None,
    project: Annotated[
        Project, typer.Option(help="The dock, or five nodes on a fast SQLite source.")
    ] = Project.dock,
) -> None:
    """The highest rate that one daemon sustains, and its latency below it."""
    from bench.load import dock, sustained

    with counting("trials") as count:
        if project is Project.dock:
            figures = sustained.measure_load(dock.dock_target(), count, plan=dock.PLAN)
        else:
            figures = sustained.measure_load(progress=count)
    figures["project"] = project.value
    show("load", figures, json_file)


# --- the engine -------------------------------------------------------------------------------


@application.command("overhead")
def overhead_command(
    json_file: JsonFile = None,
    rounds: Rounds = overhead.ROUNDS,
    on_uvloop: Annotated[bool, typer.Option("--uvloop", help="Run on uvloop.")] = False,
) -> None:
    """Engine against a hand-written asyncio loop and against LangGraph.

    On the standard library's event loop, which is where both peers live; `--uvloop` uses the
    daemon's own.
    """
    run = uvloop.run if on_uvloop else asyncio.run
    with counting("walks") as count:
        figures = run(overhead.measure(rounds, count))
    figures["event_loop"] = "uvloop" if on_uvloop else "asyncio"
    show("engine overhead", figures, json_file)


@application.command("prefetch")
def prefetch_command(json_file: JsonFile = None, rounds: Rounds = prefetch.ROUNDS) -> None:
    """`prefetch = subtree` against `layer` on a real Prometheus: latency and source load."""
    with counting("decisions") as count, servers_needed():
        figures = prefetch.measure(rounds, count)
    show("prefetch", figures, json_file)


@application.command("start")
def start_command(json_file: JsonFile = None, rounds: Rounds = start.ROUNDS) -> None:
    """Time until the daemon is ready, and what it keeps resident when idle."""
    with counting("starts") as count:
        figures = start.measure(rounds, count)
    show("start", figures, json_file)


if __name__ == "__main__":
    application()
