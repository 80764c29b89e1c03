"""What was answered survives SIGKILL, and reaches the disk before the answer."""

from __future__ import annotations

import os
import random
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.contract.conftest import StoreMaker, make_store, postgres_databases
from tests.contract.gap_world import gap
from tests.contract.store_world import HandClock, migrated
from tests.servers import wait_until
from triage.model.alert import AlertId

__all__ = ["make_store", "postgres_databases"]  # fixtures

ROOT = Path(__file__).parents[2]
KILLS = 8
OTHERS = """SELECT pid FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid()"""
STRACE = ("strace", "-f", "-y", "-e", "trace=write,pwrite64,fsync,fdatasync", "-o")


def command(where: str | Path, prefix: str, alerts: int) -> list[str]:
    program = "tests.integration.store_writer"
    return [sys.executable, "-m", program, str(where), prefix, str(alerts)]


def lines_until_killed(where: str | Path, prefix: str, lines: int) -> list[str]:
    """Everything the writer said before it was killed, just after it had said `lines` lines."""
    with subprocess.Popen(  # noqa: S603 - our own program
        command(where, prefix, 0), stdout=subprocess.PIPE, cwd=ROOT
    ) as writer:
        assert writer.stdout is not None
        said = [writer.stdout.readline() for _ in range(lines)]
        writer.kill()
        said += writer.stdout.readlines()
    assert b"" not in said, "the writer ended by itself"
    return [line.decode().strip() for line in said if line.endswith(b"\n")]


async def test_nothing_that_was_answered_is_lost_to_sigkill(make_store: StoreMaker) -> None:
    seed = 20260301
    chance = random.Random(seed)
    accepted: set[str] = set()
    decided: dict[str, str] = {}
    for kill in range(KILLS):
        for line in lines_until_killed(
            make_store.location, f"life{kill}", chance.randrange(1, 400)
        ):
            word, alert_id, *rest = line.split()
            if word == "accepted":
                accepted.add(alert_id)
            else:
                assert alert_id not in decided, f"decided twice: {alert_id}, seed {seed}"
                decided[alert_id] = rest[0]

    if make_store.backend == "postgres":
        # The server may still be at what the last one asked of it.
        wait_until(lambda: make_store.sql(OTHERS) == [], what="the killed one's sessions end")
    store = await make_store(clock=HandClock())
    ledger = await store.ledger.ledger(full=True)
    assert ledger.balances, ledger
    assert ledger == await store.ledger.ledger()
    assert ledger.accepted >= len(accepted) > 0
    assert ledger.decided >= len(decided) > 0
    sent = {
        row.key: row.body.decode()
        for row in await store.outbox.due("hook", now=HandClock().now(), limit=10**6)
    }
    assert len(sent) == ledger.outbox_pending == ledger.decided
    for alert_id in accepted:
        stored = await store.decisions.get(AlertId(alert_id))
        assert stored is not None, f"{alert_id} was answered and is lost, seed {seed}"
        if alert_id in decided:
            assert stored["outcome"] == decided[alert_id] == sent[alert_id]
            assert await store.decisions.evidence(alert_id) == b"answer " * 100
    cases = make_store.sql("SELECT alert_id FROM gap_cases ORDER BY 1")
    assert cases == make_store.sql("SELECT alert_id FROM decisions ORDER BY 1")
    kind = await store.gaps.gap(gap(AlertId("any")).gap_id)
    assert kind is not None
    assert kind.count == ledger.decided
    held = {d.alert_id for d in await store.queue.receive(limit=10**6, wait_s=0)}
    pending = make_store.sql("SELECT alert_id FROM alerts WHERE status = 'pending'")
    assert {row[0] for row in pending} <= held
    assert len(pending) == ledger.pending


@pytest.mark.skipif(
    shutil.which("strace") is None and not os.environ.get("CI"), reason="strace is not installed"
)
def test_an_alert_is_on_the_disk_before_it_is_answered(tmp_path: Path) -> None:
    path = migrated(tmp_path / "triage.db")
    trace = tmp_path / "trace"
    alerts = 12
    done = subprocess.run(  # noqa: S603 - our own program
        [*STRACE, str(trace), *command(path, "traced", alerts)],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("accepted") == 2 * alerts + 3

    journal = re.escape(f"<{path}-wal>")
    answers = synced_answers = 0
    syncing: set[str] = set()  # threads inside an fsync of the journal
    unsynced = False  # whether the journal was written to since it was last on the disk
    fresh = False  # whether the journal came onto the disk since the last answer
    for line in trace.read_text().splitlines():
        thread = line.split(maxsplit=1)[0]
        if re.search(rf"pwrite64\(\d+{journal}", line):
            unsynced = True
        elif re.search(rf"f(data)?sync\(\d+{journal}", line) and "<unfinished" in line:
            syncing.add(thread)
        elif re.search(rf"f(data)?sync\(\d+{journal}", line) or (
            thread in syncing and "sync resumed" in line
        ):
            syncing.discard(thread)
            unsynced, fresh = False, True
        elif '"accepted' in line:
            answers += 1
            synced_answers += fresh
            assert not unsynced, f"answered before the journal was on the disk: {line}"
            fresh = False  # two alerts of one request share a commit: only the first follows one
    assert answers == 2 * alerts + 3
    assert synced_answers == alerts + 3
