"""The commands about deliveries: `chaos`, `scale`, `burst` and `soak`."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from bench.saying import JsonFile, counting, say, servers_needed, show, write

application = typer.Typer(add_completion=False)


class Queue(StrEnum):
    sqlite = "sqlite"
    postgres = "postgres"
    redis = "redis"
    nats = "nats"


class Store(StrEnum):
    sqlite = "sqlite"
    postgres = "postgres"


QueueOption = Annotated[
    Queue,
    typer.Option("--queue", help="sqlite and postgres: in the store; redis and nats: a broker."),
]
StoreOption = Annotated[
    Store | None, typer.Option("--store", help="Left out: the one that goes with the queue.")
]


def add_to(commands: typer.Typer) -> None:
    commands.registered_commands.extend(application.registered_commands)


@application.command("chaos")
def chaos_command(
    seconds: Annotated[float, typer.Option(min=5, help="How long faults are made.")] = 60.0,
    queue: QueueOption = Queue.sqlite,
    store: StoreOption = None,
    seed: Annotated[int, typer.Option(help="Of the plan and of the alerts.")] = 2026,
    rate: Annotated[float | None, typer.Option(min=0.1, help="Alerts a second; 25.")] = None,
    alerts: Annotated[int | None, typer.Option(min=1, help="In place of --rate.")] = None,
    replicas: Annotated[
        int | None, typer.Option(min=1, max=8, help="3 on PostgreSQL; SQLite has one.")
    ] = None,
    every: Annotated[
        float | None, typer.Option(min=0.2, help="Mean seconds between two kills, stops, restarts.")
    ] = None,
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep logs, journal and receipts of a good run too.")
    ] = False,
    json_file: JsonFile = None,
) -> None:
    """Replicas, broker and database are killed, stopped and cut off while alerts are sent.

    Ends with 1 when an alert that was answered with 2xx is missing, a message came with two bodies
    or unasked, or the ledger does not balance; what is wrong is printed, and the folder of the run
    is kept. The plan is a function of the options: run the printed command to have it again.
    """
    from bench.chaos.options import BadOptions, options
    from bench.chaos.run import ChaosFailed, measure_chaos

    try:
        wanted = options(
            seconds=seconds,
            queue=queue.value,
            store=store.value if store else None,
            seed=seed,
            rate=rate,
            alerts=alerts,
            replicas=replicas,
            every_s=every,
        )
    except BadOptions as error:
        raise typer.BadParameter(str(error)) from None
    with counting("seconds") as count, servers_needed():
        try:
            figures, found = measure_chaos(wanted, count, say, keep=keep)
        except ChaosFailed as error:
            say(str(error))
            raise typer.Exit(1) from None
    apart = {"plan", "exits", "findings", "longest_recoveries", "ledger", "options"}
    show("chaos", {k: v for k, v in figures.items() if k not in apart}, None)
    write(figures, json_file)
    for name, ids in found.document().items():
        for one in ids[:10]:
            say(f"{name}: {one}")
        if len(ids) > 10:
            say(f"{name}: and {len(ids) - 10} more")
    if not found.ok:
        say(f"look in {figures['kept']}; the same again: {figures['again']}")
        raise typer.Exit(1)


@application.command("scale")
def scale_command(
    json_file: JsonFile = None,
    queue: QueueOption = Queue.redis,
    rounds: Annotated[int, typer.Option(min=1, help="One and two replicas, in turns.")] = 3,
    seconds: Annotated[float, typer.Option(min=1, help="Measured, each time.")] = 15.0,
) -> None:
    """Two replicas against one: rate, and CPU time an alert. Sources take 20 ms, slots are few.

    On PostgreSQL, with the queue in it or on a broker.
    """
    from bench import scale

    if queue is Queue.sqlite:
        raise typer.BadParameter("an SQLite store belongs to one process", param_hint="--queue")
    plan = scale.Plan(rounds=rounds, measured_s=seconds)
    with counting("measurements") as count, servers_needed():
        figures = scale.measure_scale(queue.value, plan, count)
    show("scale", figures, json_file)


@application.command("burst")
def burst_command(
    json_file: JsonFile = None,
    queue: QueueOption = Queue.sqlite,
    alerts: Annotated[int, typer.Option(min=100, help="At once.")] = 5000,
) -> None:
    """As many alerts as fast as they go into one replica, the critical ones last.

    Ends with 1 when one was lost.
    """
    from bench import burst

    with counting("alerts") as count, servers_needed():
        figures = burst.measure_burst(queue.value, alerts, count)
    show("burst", figures, json_file)
    if not figures["ok"]:
        raise typer.Exit(1)


@application.command("soak")
def soak_command(
    json_file: JsonFile = None,
    queue: QueueOption = Queue.sqlite,
    seconds: Annotated[float, typer.Option(min=20, help="How long.")] = 1800.0,
    rate: Annotated[
        float | None, typer.Option(min=0.1, help="Alerts a second; half of what is sustained.")
    ] = None,
    plot: Annotated[Path | None, typer.Option(help="Write a picture here.")] = None,
) -> None:
    """One daemon at half its highest rate: resident memory and open files over the time.

    Ends with 1 when an alert was lost, or files stayed open.
    """
    from bench import soak

    with counting("seconds") as count, servers_needed():
        figures = soak.measure_soak(queue.value, seconds=seconds, rate=rate, progress=count)
    if plot is not None:
        say(str(soak.draw(figures, plot)))
    show("soak", {k: v for k, v in figures.items() if k != "samples"}, None)
    write(figures, json_file)
    if not figures["ok"]:
        raise typer.Exit(1)
