"""Dead letters: alerts and messages that were given up, until a person deals with them."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from tests.contract.conftest import StoreMaker
from tests.contract.dead_letter_world import balance, dead_alert, message
from tests.contract.store_world import START, HandClock, arrival, decision
from triage.adapters.store import Store
from triage.errors import PayloadError
from triage.model.alert import AlertId
from triage.ports import DeadLetter, DeadLetterPage


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
async def store(make_store: StoreMaker, clock: HandClock) -> Store:
    return await make_store(clock=clock)


# --- giving up --------------------------------------------------------------------------------


async def test_there_is_nothing_to_deal_with(store: Store) -> None:
    for name in ("unheard", "", "'; --", "\0", "x" * 10_000):
        assert await store.dead_letters.dead_letter(name) is None
        assert await store.dead_letters.redrive(name, by="ann", at=START) is None
        assert (
            await store.dead_letters.redrive(name, by="ann", at=START, arrivals=[arrival()]) is None
        )
        assert not await store.dead_letters.discard(name, by="ann", note="", at=START)
    assert await balance(store) == (0, 0, 0, 0)


async def test_a_pending_or_decided_alert_is_no_dead_letter(store: Store) -> None:
    [pending], [decided] = [await store.alerts.accept([arrival(name)]) for name in "ab"]
    assert pending.alert_id is not None
    assert decided.alert_id is not None
    await store.decisions.commit(decision(decided.alert_id), {}, ())
    for alert_id in (pending.alert_id, decided.alert_id):
        assert await store.dead_letters.redrive(alert_id, by="ann", at=START) is None
        assert not await store.dead_letters.discard(alert_id, by="ann", note="", at=START)
    assert not await store.alerts.dead_letter(decided.alert_id, "late", "")
    assert not await store.alerts.dead_letter(AlertId("unheard"), "late", "")
    assert await balance(store) == (2, 1, 0, 0)


async def test_an_alert_that_was_given_up_lies_there_with_what_its_sender_sent(
    store: Store, clock: HandClock
) -> None:
    clock.advance(5)
    alert_id = await dead_alert(store)

    assert await store.dead_letters.dead_letter(alert_id) == DeadLetter(
        dead_letter_id=alert_id,
        alert_id=alert_id,
        alarm="al_queue",
        site="north",
        severity="critical",
        payload=b'{"raw":true}',
        reason="attempts_used_up",
        detail="2 attempts",
        attempts=2,
        at=clock.now(),
    )
    assert not await store.alerts.dead_letter(alert_id, "again", "")
    assert await balance(store) == (1, 0, 1, 0)


async def test_a_message_that_is_no_alert_lies_there_as_it_came(store: Store) -> None:
    assert await store.dead_letters.bury(message())
    assert await store.dead_letters.dead_letter("m1") == message()
    assert await balance(store) == (1, 0, 1, 0)


async def test_a_message_is_buried_once(store: Store) -> None:
    assert await store.dead_letters.bury(message())
    assert not await store.dead_letters.bury(replace(message(), reason="other", payload=b""))
    assert await store.dead_letters.dead_letter("m1") == message()
    assert await balance(store) == (1, 0, 1, 0)


async def test_replicas_bury_a_message_once(
    make_store: StoreMaker, store: Store, clock: HandClock
) -> None:
    other = await make_store(clock=clock) if make_store.backend == "postgres" else store
    for n in range(5):
        buried = await asyncio.gather(
            *(one.dead_letters.bury(message(f"m{n}")) for one in (store, other) * 2)
        )
        assert sorted(buried) == [False, False, False, True]
    assert await balance(store) == (5, 0, 5, 0)


async def test_a_message_with_any_text_in_it_can_be_buried(store: Store) -> None:
    odd = "a\0\ud800" + "x" * 20_000
    assert await store.dead_letters.bury(
        replace(
            message(),
            stream=odd,
            format=odd,
            reason=odd,
            detail=odd,
            headers={odd: odd},
            payload=b"",
        )
    )
    kept = await store.dead_letters.dead_letter("m1")
    assert kept is not None
    for text in (kept.stream, kept.format, kept.reason, kept.detail, *kept.headers.values()):
        assert text.startswith("a??x")
        assert len(text) <= 10_000
    page = await store.dead_letters.dead_letter_page(reason=odd, cursor="", limit=1)
    assert page.dead_letters == (kept,)


# --- lists ------------------------------------------------------------------------------------


async def test_pages_walk_all_newest_first(store: Store, clock: HandClock) -> None:
    expected = []
    for n in range(13):
        clock.advance(n % 3)  # several in the same microsecond
        if n % 2:
            expected.append((clock.now(), await dead_alert(store, f"f{n}")))
        else:
            await store.dead_letters.bury(replace(message(f"m{n}"), at=clock.now()))
            expected.append((clock.now(), AlertId(f"m{n}")))
    expected.sort(reverse=True)

    pages: list[DeadLetterPage] = []
    while not pages or pages[-1].cursor:
        cursor = pages[-1].cursor if pages else ""
        pages.append(await store.dead_letters.dead_letter_page(reason="", cursor=cursor, limit=5))

    shown = [letter for page in pages for letter in page.dead_letters]
    assert [(letter.at, letter.dead_letter_id) for letter in shown] == expected
    assert [len(page.dead_letters) for page in pages] == [5, 5, 3]
    for letter in shown:
        assert await store.dead_letters.dead_letter(letter.dead_letter_id) == letter


async def test_a_list_is_of_one_reason_when_asked(store: Store) -> None:
    alert_id = await dead_alert(store)
    for n in range(5):
        await store.dead_letters.bury(message(f"m{n}", reason="payload" if n % 2 else "crashed"))

    async def listed(reason: str) -> list[str]:
        page = await store.dead_letters.dead_letter_page(reason=reason, cursor="", limit=2)
        rest = page.cursor and await store.dead_letters.dead_letter_page(
            reason=reason, cursor=page.cursor, limit=2
        )
        letters = [*page.dead_letters, *(rest.dead_letters if rest else ())]
        return [letter.dead_letter_id for letter in letters]

    assert await listed("payload") == ["m3", "m1"]
    assert await listed("crashed") == ["m4", "m2", "m0"]
    assert await listed("attempts_used_up") == [alert_id]
    assert await listed("unheard") == []


async def test_a_cursor_of_nobody_is_refused(store: Store) -> None:
    for cursor in ("x", "é", "\0", "=" * 40):
        with pytest.raises(PayloadError) as refused:
            await store.dead_letters.dead_letter_page(reason="", cursor=cursor, limit=1)
        assert refused.value.field == "cursor"
