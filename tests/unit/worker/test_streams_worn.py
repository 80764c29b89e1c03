"""Messages that the store, or this project, cannot bear: given up in time, in nobody's way."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.unit.evaluation.virtual_time import on_virtual_time
from tests.unit.worker.bench import LOST, until
from tests.unit.worker.stream_world import StreamBench, body, native
from triage.model.alert import Accepted, Arrival
from triage.worker.streams import PROCESSES_ENDED
from triage.worker.suspects import Suspects


@pytest.fixture
def bench(tmp_path: Path) -> StreamBench:
    return StreamBench(folder=tmp_path)


@on_virtual_time
async def test_a_message_that_crashes_is_given_up_and_spares_the_others(
    bench: StreamBench,
) -> None:
    bench.shelf.refused["a2"] = ZeroDivisionError("a bug")
    for number in range(1, 4):
        bench.stream.put(body(native(number)))
    async with bench.running():
        await until(lambda: len(bench.stream.acked) == 3)
    assert set(bench.stream.acked[:2]) == {"1-0", "3-0"}
    (letter,) = bench.letters
    assert letter.reason == "attempts_used_up"
    assert letter.attempts == bench.options.max_deliveries
    assert "ZeroDivisionError: a bug" in letter.detail
    assert letter.payload == body(native(2))
    assert len(bench.shelf.rows) == 2
    assert bench.results() == {"accepted": 2, "attempts_used_up": 1, "released": 4}


@on_virtual_time
async def test_a_message_that_only_the_store_cannot_bear_is_given_up_beside_others(
    bench: StreamBench,
) -> None:
    bench.shelf.refused["a2"] = LOST
    for number in range(1, 8):
        bench.stream.put(body(native(number)))
    async with bench.running():
        await until(lambda: len(bench.stream.acked) == 7)
    (letter,) = bench.letters
    assert letter.reason == "attempts_used_up"
    assert letter.payload == body(native(2))
    assert "took other messages" in letter.detail
    assert len(bench.shelf.rows) == 6


@on_virtual_time
async def test_a_burial_that_crashes_stops_nothing(bench: StreamBench) -> None:
    bench.stream.put(b"{")
    bench.stream.put(body(native(1)))
    bench.shelf.failures["bury"] = [ZeroDivisionError("a bug")]
    async with bench.running():
        await until(lambda: len(bench.stream.acked) == 2)
    assert len(bench.letters) == 1


@on_virtual_time
async def test_a_message_that_ended_two_processes_is_not_tried_again(bench: StreamBench) -> None:
    fatal = bench.stream.put(body(native(1)), deliveries=5)
    bench.stream.put(body(native(2)))
    for _ in range(PROCESSES_ENDED):
        Suspects(bench.note).enter(fatal)  # and no `leave`: the process was gone
    async with bench.running():
        await until(lambda: len(bench.stream.acked) == 2)
    (letter,) = bench.letters
    assert (letter.reason, letter.payload) == ("attempts_used_up", body(native(1)))
    assert "2 processes in a row ended" in letter.detail
    assert len(bench.shelf.rows) == 1
    assert not bench.note.exists()


@on_virtual_time
async def test_one_kill_that_happened_to_come_then_is_no_proof(bench: StreamBench) -> None:
    worn = bench.stream.put(body(native(1)), deliveries=5)
    Suspects(bench.note).enter(worn)
    async with bench.running():
        await until(lambda: len(bench.stream.acked) == 1)
    assert bench.letters == []
    assert len(bench.shelf.rows) == 1


@on_virtual_time
async def test_a_message_is_noted_for_as_long_as_it_is_in_hand(bench: StreamBench) -> None:
    """Else a crash while it is accepted would leave no trace."""
    notes: list[bool] = []
    accept = bench.shelf.accept

    async def watch(arrivals: Sequence[Arrival]) -> list[Accepted]:
        notes.append(bench.note.exists())
        return await accept(arrivals)

    bench.shelf.accept = watch  # type: ignore[method-assign]
    bench.stream.put(body(native(1)))
    bench.stream.put(body(native(2)), deliveries=5)
    async with bench.running():
        await until(lambda: len(bench.stream.acked) == 2)
    assert notes == [False, True]


@on_virtual_time
async def test_a_worn_message_is_taken_like_any_other_and_leaves_no_note(
    bench: StreamBench,
) -> None:
    bench.stream.put(body(native(1)), deliveries=50)
    async with bench.running():
        await until(lambda: len(bench.stream.acked) == 1)
    assert bench.letters == []
    assert not bench.note.exists()


@on_virtual_time
async def test_a_folder_that_takes_no_note_is_no_obstacle(bench: StreamBench) -> None:
    bench.note.mkdir()
    bench.stream.put(body(native(1)), deliveries=50)
    async with bench.running():
        await until(lambda: len(bench.stream.acked) == 1)
    assert len(bench.shelf.rows) == 1
