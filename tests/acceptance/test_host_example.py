"""Real trouble on this machine: noticed, delivered, decided, mended, accounted for."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping
from datetime import datetime
from math import isfinite
from typing import Any

import pytest
import yaml

from examples.host.stage import HERE, INSTANCE, SITE
from tests.acceptance.host_story import P99, Document, Story, read, sha256, tell
from tests.servers import binary

CORES_BUSY_PCT = 90.0  # what one core kept busy shows at least, of one core


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Story:
    return tell(tmp_path_factory.mktemp("host"))


@pytest.fixture(scope="module")
def disk(story: Story) -> str:
    if story.disk is None:
        pytest.skip("only root may mount a file system to fill")
    return str(story.disk)


# --- the disk ---------------------------------------------------------------------------------


def test_full_disk_is_decided_as_the_procedure_says(story: Story, disk: str) -> None:
    document = story.decided["HostDiskFilling"]
    assert verdicts(document) == {
        "obs_disk_full": "true",
        "rc_disk_filling": "true",
        "cn_cleanup_safe": "false",  # what a clean-up frees would be filled again in seconds
    }
    assert {node["subject"] for node in document["nodes"]} == {disk}
    assert document["outcome"] == "actions"
    assert document["root_causes"] == [{"node": "rc_disk_filling", "subject": disk}]
    assert effective(document) == [("find_writer", disk), ("grow_filesystem", disk)]
    assert [(one["action"], one["dropped"], one["by"]) for one in document["dropped_actions"]] == [
        ("warn_owner", "cancelled", "grow_filesystem")
    ]


def test_the_tool_saw_the_disk_as_the_kernel_does(story: Story, disk: str) -> None:
    figures = story.disk_figures
    assert figures is not None
    used = 100 * (1 - figures.f_bavail / figures.f_blocks)
    assert used >= 97
    assert observed(story.decided["HostDiskFilling"], "used") == pytest.approx(used, abs=0.1)
    free = samples(story, "HostDiskFilling", "node_filesystem_avail_bytes")[-1][1]
    assert free == figures.f_bavail * figures.f_frsize


# --- the service ------------------------------------------------------------------------------


def test_killed_service_is_decided_as_the_procedure_says(story: Story) -> None:
    document = story.decided["ServiceDown"]
    assert verdicts(document) == {
        "obs_service_down": "true",
        "rc_host_unreachable": "false",  # the exporter answers
        "cn_restart_safe": "true",
    }
    assert document["outcome"] == "actions"
    assert document["root_causes"] == []
    assert effective(document) == [("restart_service", "shop")]
    assert document["dropped_actions"] == []


def test_the_service_is_really_gone_and_was_started_when_the_tool_says(story: Story) -> None:
    assert story.shop_is_gone
    document = story.decided["ServiceDown"]
    # The kernel's boot time, which the start is told relative to, is in whole seconds.
    age_s = fired_s(document) - story.shop_started_s
    assert observed(document, "seconds since start") == pytest.approx(age_s, abs=1.5)
    failed = int(observed(document, "scrapes failed in a row"))
    scrapes = [up for _, up in samples(story, "ServiceDown", 'job="shop"')]
    assert scrapes[-failed:] == [0.0] * failed
    assert 1.0 in scrapes


# --- the processor ----------------------------------------------------------------------------


def test_busy_processor_agrees_with_proc_stat(story: Story) -> None:
    """Other programs use the machine as well, so what is certain is the kernel's own figure for
    the same stretch of time, and that one core at least was busy all of it."""
    document = story.decided["HostHighCpu"]
    busy = observed(document, "processor busy")
    times = [at for at, _ in samples(story, "HostHighCpu", "node_cpu_seconds_total")]
    assert busy == pytest.approx(story.busy_pct(times[0], times[-1]), abs=8)
    cores = {series["cpu"] for series in labels(story, "HostHighCpu", "node_cpu_seconds_total")}
    assert busy >= CORES_BUSY_PCT / len(cores)


def test_busy_processor_is_decided_as_its_verdicts_say(story: Story) -> None:
    document = story.decided["HostHighCpu"]
    said = verdicts(document)
    busy = observed(document, "processor busy")
    assert said["obs_cpu_busy"] == ("true" if busy > 85 else "false")
    assert "failed" not in said.values()
    assert "no_data" not in said.values()


# --- all three --------------------------------------------------------------------------------


def test_edges_and_actions_follow_from_the_verdicts_by_the_procedure(story: Story) -> None:
    sop = yaml.safe_load((HERE / "sop.yaml").read_text(encoding="utf-8"))
    for alarm, document in story.decided.items():
        reached, edges = walk(sop, alarm, verdicts(document))
        assert {tuple(edge) for edge in document["edges"]} == edges
        assert {name for name, _ in effective(document)} == surviving(sop["actions"], reached)
        dropped = {one["action"] for one in document["dropped_actions"]}
        assert dropped == reached - surviving(sop["actions"], reached)


def test_every_figure_agrees_with_prometheus(story: Story) -> None:
    compared = 0
    for document in story.decided.values():
        for node in document["nodes"]:
            for clause in node["clauses"]:
                name = (node["node"], clause["name"])
                if name == ("cn_cleanup_safe", "protected"):
                    assert clause["observed"] is False
                    continue
                tolerance = pytest.approx(story.opinions[name], rel=1e-3, abs=1e-9)
                assert clause["observed"] == tolerance, name
                compared += 1
    assert compared >= len(story.decided)


def test_decisions_say_what_they_are_about(story: Story) -> None:
    for alarm, document in story.decided.items():
        assert document["alarm"] == alarm
        assert (document["entity"], document["site"]) == (INSTANCE, SITE)
        assert not document["degraded"]
        assert document["warnings"] == []
        assert document["fired_at"] < document["evaluated_at"] < document["decided_at"]
        for node in document["nodes"]:
            assert node["answered_by"] == "tool"
            assert node["explanation"]
            assert node["clauses"]
        for action in document["actions"]:
            key = f"{document['alert_id']}:{action['action']}:{action['subject']}"
            assert action["key"] == key


def test_evidence_is_served_and_hashes_to_its_name(story: Story) -> None:
    sizes = {
        asked["answer_sha256"]: asked["answer_bytes"]
        for document in story.decided.values()
        for node in document["nodes"]
        for asked in node["asked"]
    }
    assert story.evidence.keys() == sizes.keys()
    assert len(sizes) >= len(story.decided)
    for digest, response in story.evidence.items():
        assert response.status_code == 200
        assert response.headers["content-type"] == "application/json"
        assert sha256(response.content) == digest
        assert len(response.content) == sizes[digest]


# --- metrics ----------------------------------------------------------------------------------


def test_this_prometheus_scrapes_the_daemon_whole(story: Story) -> None:
    series = [line for line in story.page.splitlines() if not line.startswith("#")]
    assert story.scraped == {
        "up": 1.0,
        "scrape_samples_scraped": float(len(series)),
        "triage_ledger_balanced": 1.0,
    }


def test_p99_is_read_back_by_promql(story: Story) -> None:
    assert story.p99_read_back == read(story.page, P99)
    assert isfinite(story.p99_read_back)
    # The daemon's log has each decision's own time; the sketch is good to one percent.
    number = int(read(story.page, "triage_decision_seconds_count"))
    taken = [event["total_ms"] / 1000 for event in events(story, "decided")[:number]]
    assert len(taken) == number >= len(story.decided)
    assert 0.99 * min(taken) <= story.p99_read_back <= 1.01 * max(taken)
    assert read(story.page, "triage_decision_seconds_sum") == pytest.approx(sum(taken), abs=0.001)


SHARES = tuple(f"triage_watch_{of}" for of in ("verdict_share", "null_share", "empty_share"))
"""Gauges of what was seen: of a node that was never evaluated there is no share to show."""


def test_no_series_appears_with_the_first_alerts(story: Story) -> None:
    appeared = names(story.page) - names(story.page_before)
    assert not {
        name for name in appeared if not name.startswith((*SHARES, "triage_watch_unwatched"))
    }
    assert names(story.page_before) <= names(story.page)


@pytest.mark.parametrize("page", ["page_before", "page"])
def test_promtool_has_nothing_to_say_against_the_page(story: Story, page: str) -> None:
    checked = subprocess.run(  # noqa: S603 - the argv is made here
        [binary("promtool"), "check", "metrics"],
        input=getattr(story, page),
        text=True,
        capture_output=True,
        check=False,
    )
    assert (checked.returncode, checked.stdout + checked.stderr) == (0, "")


# --- afterwards -------------------------------------------------------------------------------


def test_resolves_are_taken_and_change_no_decision(story: Story) -> None:
    assert story.resolves_accepted >= len(story.decided.keys() - {"HostHighCpu"})
    assert story.decided_after_resolve == story.decided


def test_every_alert_has_one_decision_and_the_ledger_balances(story: Story) -> None:
    ids = [head["alert_id"] for head in story.decisions]
    assert len(ids) == len(set(ids))
    assert {one["alert_id"] for one in story.decided.values()} <= set(ids)
    assert story.ledger["balances"] is True
    assert story.ledger["unaccounted"] == []
    assert story.ledger["accepted"] == story.ledger["decided"] == len(ids)
    assert story.ledger["dead_lettered"] == story.ledger["discarded"] == 0
    assert story.ledger["outbox_given_up"] == 0


def test_file_sink_has_every_decision_with_one_body(story: Story) -> None:
    bodies: dict[str, Document] = {}
    for line in story.delivered:
        assert bodies.setdefault(line["key"], line["decision"]) == line["decision"]
    assert {body["alert_id"] for body in bodies.values()} == {
        head["alert_id"] for head in story.decisions
    }
    assert len(bodies) == len(story.decisions)
    for document in story.decided.values():
        body = bodies[f"{document['alert_id']}:decision"]
        stored_only = ("decided_at", "accepted_to_decided_ms")
        assert {**body, **{key: document[key] for key in stored_only}} == document


def test_payloads_of_other_senders_are_accepted_and_decided(story: Story) -> None:
    outcomes = {head["alert_id"]: head["outcome"] for head in story.decisions}
    assert len(story.posted) == 7
    for name, response in story.posted.items():
        assert response.status_code == 202, (name, response.text)
        answer = response.json()
        assert answer["alert_ids"], name
        assert answer["rejected"] == [], name
        # This procedure knows none of their alarms.
        assert {outcomes[alert_id] for alert_id in answer["alert_ids"]} <= {"escalate", "resolved"}
    truncated = story.posted["alertmanager-v4-firing-truncated.json"].json()["truncated"]
    assert truncated == 2


def test_the_log_has_a_line_a_decision_and_no_trouble(story: Story) -> None:
    decided = [event["alert_id"] for event in events(story, "decided")]
    assert sorted(decided) == sorted(head["alert_id"] for head in story.decisions)
    trouble = [event for event in story.log if event["level"] not in {"debug", "info"}]
    # Two of the payloads say that alerts were lost on the way, and that is trouble.
    assert {event["event"] for event in trouble} == {"truncated_upstream"}


def test_nothing_is_left_behind(story: Story) -> None:
    assert story.exit_status == 0
    assert len(story.processes) == 8
    assert story.alive_after == []
    assert not story.mounted_after


# --- reading ----------------------------------------------------------------------------------


def verdicts(document: Document) -> dict[str, str]:
    return {node["node"]: node["verdict"] for node in document["nodes"]}


def effective(document: Document) -> list[tuple[str, str]]:
    return sorted((one["action"], one["subject"]) for one in document["actions"])


def fired_s(document: Document) -> float:
    return datetime.fromisoformat(document["fired_at"]).timestamp()


def observed(document: Document, clause_name: str) -> float:
    [value] = [
        clause["observed"]
        for node in document["nodes"]
        for clause in node["clauses"]
        if clause["name"] == clause_name
    ]
    return float(value)


def events(story: Story, name: str) -> list[Document]:
    return [event for event in story.log if event["event"] == name]


def names(page: str) -> set[str]:
    lines = [line for line in page.splitlines() if not line.startswith("#")]
    return {line.rpartition(" ")[0] for line in lines}


def answers(story: Story, alarm: str, selector: str) -> Iterator[tuple[dict[str, str], Any, Any]]:
    """Labels, times and values of what the first node that asked for it was answered."""
    for node in story.decided[alarm]["nodes"]:
        for asked in node["asked"]:
            if selector in asked["query"]["selector"]:
                yield from story.evidence[asked["answer_sha256"]].json()["series"]
                return
    raise LookupError(selector)


def samples(story: Story, alarm: str, selector: str) -> list[tuple[float, float]]:
    """Time and value of the first series' samples, oldest first."""
    _, times, values = next(answers(story, alarm, selector))
    return list(zip(times, values, strict=True))


def labels(story: Story, alarm: str, selector: str) -> list[dict[str, str]]:
    return [found for found, _, _ in answers(story, alarm, selector)]


# --- the procedure, in so many words ------------------------------------------------------------


def walk(
    sop: Mapping[str, Any], alarm: str, said: Mapping[str, str]
) -> tuple[set[str], set[tuple[str, str, str]]]:
    """The actions that these verdicts reach, and the edges to them."""
    edges = {(alarm, "alarm", node) for node in sop["alarms"][alarm]}
    todo = list(sop["alarms"][alarm])
    reached, seen = set(), set()
    while todo:
        node = todo.pop()
        if node in seen:
            continue
        seen.add(node)
        for target in sop["nodes"][node].get(f"on_{said[node]}", []):
            edges.add((node, said[node], target))
            if target in sop["nodes"]:
                todo.append(target)
            else:
                reached.add(target)
    assert seen == said.keys()
    return reached, edges


def surviving(actions: Mapping[str, Any], reached: set[str]) -> set[str]:
    cancelled = {name for one in reached for name in actions[one].get("cancels", [])}
    kept = reached - cancelled
    firm = {one for one in kept if not actions[one].get("yields")}
    if firm or not kept:
        return firm
    return {max(kept, key=lambda one: int(actions[one]["rank"]))}
