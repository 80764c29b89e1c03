"""Recorded cases as text: whatever was recorded is read back as it was, and can be updated."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.app.golden_world import one
from tests.unit.evaluation.world import alert
from triage.app.golden_case import Recorded
from triage.app.golden_record import Refusal, record_case
from triage.app.golden_text import READABLE, with_expectation
from triage.model.alert import Alert, AlertId
from triage.model.canonical import sha256_hex
from triage.model.decision import Failure
from triage.model.query import (
    Aggregate,
    Call,
    Query,
    Rows,
    Samples,
    Series,
    encode_answer,
    query_digest,
    query_document,
)
from triage.ports import AlertStatus, DecisionFilter, DecisionPage, StoredAlert

AT = datetime(2026, 6, 1, 12, 31, tzinfo=UTC)
FILE = Path("golden/case.yaml")

# What reaches a file: no lone surrogates, and none of the few characters that no YAML can hold.
TEXT = st.text(
    st.characters(codec="utf-8", exclude_characters="\ufeff", exclude_categories=("Cc", "Cn", "Cs"))
    | st.sampled_from("\n\t'\"\\: #{}[]-%&*!|>\u2028é"),
    max_size=30,
)
WORDS = TEXT | st.sampled_from(["true", "no", "0o14", "1e5", "1.0", "~", "null", "", "-", "<<"])
NUMBERS = st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
VALUES = WORDS | NUMBERS | st.booleans() | st.none()
TIMES = st.datetimes(timezones=st.just(UTC))
QUERIES: st.SearchStrategy[Query] = st.one_of(
    st.builds(Samples, WORDS, WORDS, TIMES, TIMES),
    st.builds(
        Aggregate,
        WORDS,
        WORDS,
        TIMES,
        TIMES,
        st.just("quantile"),
        st.floats(min_value=0, max_value=1),
    ),
    st.builds(
        Rows,
        WORDS,
        WORDS,
        st.dictionaries(WORDS, VALUES, max_size=3).map(lambda found: tuple(sorted(found.items()))),
    ),
    st.builds(
        Call,
        WORDS,
        WORDS,
        st.dictionaries(WORDS, VALUES | st.lists(VALUES, max_size=3), max_size=3).map(
            lambda found: orjson.dumps(found, option=orjson.OPT_SORT_KEYS).decode()
        ),
    ),
)


def series(points: int) -> bytes:
    times = tuple(float(second) for second in range(points))
    values = tuple(math.sin(second) for second in range(points))
    return encode_answer((Series({"host": "é\u2028"}, times, values),))


class Record:
    """One decision with its alert, as a store would give them."""

    def __init__(
        self, alert: Alert, answers: list[tuple[Query, bytes | Failure]], **changes: Any
    ) -> None:
        self.alert = alert
        self.bodies = {sha256_hex(a): a for _, a in answers if isinstance(a, bytes)}
        self.document: dict[str, Any] = {
            "alert_id": alert.alert_id,
            "alarm": alert.alarm,
            "entity": alert.entity,
            "outcome": "actions",
            "reason": "",
            "degraded": False,
            "root_causes": [],
            "actions": [{"action": "look", "subject": "x\n: y"}],
            "dropped_actions": [
                {"action": "close", "subject": "", "dropped": "yielded", "by": "look"}
            ],
            "nodes": [
                {
                    "node": "obs",
                    "verdict": "true",
                    "subject": "no",
                    "answered_by": "tool",
                    "asked": [_asked(query, answer) for query, answer in answers],
                }
            ],
            "sop": "shop",
            "sop_version": 3,
            **changes,
        }

    async def get(self, alert_id: AlertId) -> dict[str, Any] | None:
        return self.document if alert_id == self.alert.alert_id else None

    async def stored(self, alert_id: AlertId) -> StoredAlert | None:
        return StoredAlert(alert=self.alert, status=AlertStatus.DECIDED, attempts=1)

    async def evidence(self, answer_sha256: str) -> bytes | None:
        return self.bodies.get(answer_sha256)

    async def page(self, wanted: DecisionFilter, *, cursor: str, limit: int) -> DecisionPage:
        raise AssertionError("nobody lists them")

    async def commit(self, *_: Any) -> Any:
        raise AssertionError("recording changes nothing")

    async def case(self, about: str = "") -> bytes | Refusal:
        return await record_case(
            self.alert.alert_id, about=about, file=FILE, decisions=self, alerts=self
        )


def _asked(query: Query, answer: bytes | Failure) -> dict[str, Any]:
    failed = isinstance(answer, Failure)
    return {
        "query": orjson.loads(orjson.dumps(query_document(query))),
        "query_sha256": query_digest(query),
        "answer_sha256": "" if isinstance(answer, Failure) else sha256_hex(answer),
        "failure": {"reason": answer.reason, "detail": answer.detail}
        if isinstance(answer, Failure)
        else None,
        "failed": failed,
    }


@given(
    st.dictionaries(
        QUERIES,
        st.builds(Failure, reason=st.just("source_timeout"), detail=WORDS)
        | st.integers(0, 300).map(series)
        | VALUES.map(encode_answer),
        max_size=4,
    ),
    st.dictionaries(WORDS, WORDS, max_size=4),
    WORDS,
)
async def test_what_was_recorded_is_read_back(
    answers: dict[Query, bytes | Failure], labels: dict[str, str], about: str
) -> None:
    record = Record(alert(labels=labels), list(answers.items()))
    text = await record.case(about)
    assert isinstance(text, bytes), text
    case = one(text)
    assert isinstance(case.content, Recorded)
    assert case.content.alert == record.alert
    assert case.content.bodies == {
        query_digest(query): body for query, body in answers.items() if isinstance(body, bytes)
    }
    assert case.content.failures == {
        query_digest(query): body for query, body in answers.items() if isinstance(body, Failure)
    }
    assert case.about == about
    assert case.expect.verdicts is not None
    assert case.expect.verdicts["obs"].subject == "no"
    # Not only by our reader: an editor's must not read anything else.
    assert yaml.safe_load(text)["alert"].get("labels", {}) == labels


async def test_a_long_answer_is_packed_and_a_short_one_readable() -> None:
    short = encode_answer(({"depth": 40, "who": "it's"},))
    text = await Record(
        alert(), [(Rows("t", "select 1"), short), (Rows("t", "select 2"), series(500))]
    ).case()
    assert isinstance(text, bytes)
    assert """  answer: '{"rows":[{"depth":40,"who":"it''s"}]}'\n""" in text.decode()
    assert b"  packed: |\n    e" in text
    assert len(series(500)) > READABLE
    assert len(text) < len(series(500))
    assert all(len(line) < 200 for line in text.splitlines())


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"outcome": "resolved"}, "was resolved before it was decided"),
        ({"nodes": [{"node": "obs", "answered_by": "fallback"}]}, "rests on the fallback"),
    ],
)
async def test_what_cannot_be_decided_again_is_refused(changes: dict[str, Any], why: str) -> None:
    refused = await Record(alert(), [], **changes).case()
    assert isinstance(refused, Refusal)
    assert why in refused.why


async def test_undecided_unknown_purged_and_unwritable_are_refused() -> None:
    pending = Record(alert(), [])
    pending.document = {"status": "pending"}
    unknown = Record(alert(), [])
    purged = Record(alert(), [(Rows("t", "select 1"), b'{"rows":[]}')])
    purged.bodies.clear()
    bell = Record(alert(labels={"a": "\x07"}), [])
    for record, why in (
        (pending, "has no decision: it is pending"),
        (purged, "rests on answers that are purged"),
        (bell, "holds text or figures that a case's file cannot hold"),
    ):
        refused = await record.case()
        assert isinstance(refused, Refusal)
        assert why in refused.why
    refused = await record_case(
        AlertId("b" * 32), about="", file=FILE, decisions=unknown, alerts=unknown
    )
    assert refused == Refusal(why="was never accepted here")


async def test_it_was_firing_when_it_was_walked() -> None:
    text = await Record(alert(resolved_at=AT + timedelta(hours=1)), []).case()
    assert isinstance(text, bytes)
    content = one(text).content
    assert isinstance(content, Recorded)
    assert content.alert.resolved_at is None


# --- updating ---------------------------------------------------------------------------------

BY_HAND = """\
# why it is here
alert: {alarm: QueueDeep, fired_at: 2026-06-01T12:31:00Z}

expect:  # looked through
  outcome: no_fault
  actions: []

# the answers
answers: []
# the end
"""


async def test_an_update_changes_the_stated_parts_and_nothing_else() -> None:
    document = Record(alert(), []).document
    changed = with_expectation(BY_HAND.encode(), one(BY_HAND).located, document)
    assert changed is not None
    expected = """\
expect:
  outcome: actions
  actions:
  - {action: look, subject: "x\\n: y"}
"""
    begin, end = BY_HAND.index("expect:"), BY_HAND.index("\n# the answers")
    assert changed.decode() == BY_HAND[:begin] + expected + BY_HAND[end:]
    again = with_expectation(changed, one(changed).located, document)
    assert again == changed


async def test_an_update_of_what_stands_last_and_of_json() -> None:
    document = Record(alert(), []).document
    last = "alert: {alarm: A, fired_at: 2026-06-01T12:31:00Z}\nanswers: []\nexpect: {actions: []}\n"
    changed = with_expectation(last.encode(), one(last).located, document)
    assert changed is not None
    assert one(changed).expect.actions is not None
    assert changed.decode().startswith(last[: last.index("expect:")])
    flow = orjson.dumps(yaml.safe_load(last), default=str, option=orjson.OPT_INDENT_2)
    flow = flow.replace(b" 12:31", b"T12:31")
    updated = with_expectation(flow, one(flow).located, document)
    assert updated is not None
    assert orjson.loads(updated)["expect"]["actions"] == [{"action": "look", "subject": "x\n: y"}]
    assert orjson.loads(updated)["alert"] == orjson.loads(flow)["alert"]


def test_an_update_leaves_alone_what_it_cannot_tell_apart() -> None:
    several = "cases:\n  a:\n    " + BY_HAND.replace("\n", "\n    ")
    document = Record(alert(), []).document
    assert with_expectation(several.encode(), one(several).located, document) is None
