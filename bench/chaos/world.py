"""Everything a run of chaos stands on, made and taken down: servers, proxies, replicas."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.brokers import BrokerServer
from bench.chaos.options import Options
from bench.chaos.project import SECRET_VARIABLE, record_setting, slow_project
from bench.chaos.proxy import Proxy
from bench.chaos.receiver import SECRET, Receiver
from bench.chaos.replicas import Replica, surely_ended
from bench.chaos.servers import KillablePostgres, make_broker
from bench.real_servers.postgres import running_cluster
from bench.servers import HOST

DELAY_MS = 50.0  # of the source: six queries in four layers, so an alert is under way for 200 ms
RECORD = "asked.log"
DEADLINE_S = 20.0
WATCHDOG_S = 30.0  # a machine that is busy with all this is no tool that blocks


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """`links` maps `sender-0`, `store-0`, `queue-0` and so on to the proxy between. The replicas
    do not run yet, and neither do proxies and receiver."""

    folder: Path
    store_url: str
    receiver: Receiver
    links: Mapping[str, Proxy]
    replicas: list[Replica]
    broker: BrokerServer | None
    postgres: KillablePostgres | None

    @property
    def records(self) -> Mapping[int, Path]:
        """What each replica's source was asked."""
        return {replica.number: replica.folder / RECORD for replica in self.replicas}


@contextmanager
def made_world(options: Options, folder: Path) -> Iterator[World]:
    """The servers run. At the end nothing does. Raises MissingServer."""
    with ExitStack() as stack:
        postgres = (
            stack.enter_context(running_cluster(KillablePostgres))
            if options.has_store_server
            else None
        )
        broker = None
        if options.has_broker:
            broker = make_broker(options.queue, folder / "broker")
            stack.callback(broker.kill)
            broker.start()
        receiver = Receiver(folder / "received.jsonl", options.seed)
        config = slow_project(folder / "project", delay_ms=DELAY_MS, hook_url=receiver.url)
        links: dict[str, Proxy] = {}
        replicas: list[Replica] = []
        for number in range(options.replicas):
            settings = {
                "STORE__MAX_PENDING": str(options.max_pending),
                "ENGINE__LEASE_S": str(options.lease_s),
                "ENGINE__SWEEP_S": str(options.sweep_s),
                "ENGINE__DEADLINE_S": str(DEADLINE_S),
                "ENGINE__WATCHDOG_S": str(WATCHDOG_S),
                SECRET_VARIABLE.removeprefix("TRIAGE_"): SECRET,
            }
            own = folder / f"replica-{number}"
            if postgres is not None:
                link = links[f"store-{number}"] = Proxy(postgres.port)
                settings["STORE__URL"] = f"postgresql://postgres@{HOST}:{link.port}/postgres"
                settings["STORE__DATA"] = str(own / "data")
            if broker is not None:
                link = links[f"queue-{number}"] = Proxy(broker.port)
                settings["QUEUE__URL"] = f"{options.queue}://{HOST}:{link.port}"
            settings |= record_setting(own / RECORD)
            replica = Replica(number, own, config, settings)
            links[f"sender-{number}"] = Proxy(replica.port)
            replicas.append(replica)
        stack.enter_context(surely_ended(replicas))
        yield World(
            folder=folder,
            store_url=(
                postgres.url
                if postgres is not None
                else f"sqlite:///{replicas[0].folder / 'data' / 'triage.db'}"
            ),
            receiver=receiver,
            links=links,
            replicas=replicas,
            broker=broker,
            postgres=postgres,
        )
