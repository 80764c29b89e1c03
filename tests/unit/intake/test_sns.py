from __future__ import annotations

import json
from typing import Any

import orjson
import pytest

from tests.unit.intake.payloads import read, refused, sample
from triage.intake.request import Subscription
from triage.model.alert import ArrivalKind, Severity

ARN = "arn:aws:cloudwatch:REGION:ACCOUNT_NUMBER:alarm:EXAMPLE"
MESSAGE = "Records[0].Sns.Message"


@pytest.fixture
def event() -> Any:
    return sample("sns-cloudwatch-alarm-lambda")


@pytest.fixture
def notification(event: Any) -> Any:
    return event["Records"][0]["Sns"]


@pytest.fixture
def alarm(notification: Any) -> Any:
    return json.loads(notification["Message"])


@pytest.fixture
def handshake() -> dict[str, Any]:
    return {
        "Type": "SubscriptionConfirmation",
        "MessageId": "165545c9",
        "Token": "T0KEN",
        "TopicArn": "arn:aws:sns:us-west-2:123456789012:alarms",
        "Message": "You have chosen to subscribe.",
        "SubscribeURL": "https://sns.us-west-2.amazonaws.com/?Action=Confirm&Token=T0KEN",
        "Timestamp": "2012-04-26T20:45:04.751Z",
    }


def _event(alarm: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {"Records": [{"Sns": {"MessageId": "m", "Message": json.dumps(alarm | changes)}}]}


def test_the_sample(event: Any, alarm: Any) -> None:
    (arrival,) = read("sns", event).arrivals
    assert arrival.kind is ArrivalKind.FIRING
    assert arrival.fingerprint == ARN
    assert (arrival.alarm, arrival.site, arrival.entity) == ("EXAMPLE", "EXAMPLE", "TestInstance")
    assert arrival.severity is Severity.UNKNOWN
    assert arrival.fired_at.isoformat() == "2015-06-03T17:43:27.123000+00:00"
    assert arrival.starts_at_ns == 1_433_353_407_123_000_000
    assert arrival.labels == {
        "InstanceId": "TestInstance",
        "MetricName": "NetworkOut",
        "Namespace": "AWS/EC2",
        "AlarmName": "EXAMPLE",
        "Region": "EXAMPLE",
        "AWSAccountId": "123456789012",
    }
    assert arrival.annotations["NewStateReason"].startswith("Threshold Crossed")
    assert orjson.loads(arrival.raw) == alarm


def test_the_three_shapes_are_one_alert(event: Any, notification: Any, alarm: Any) -> None:
    wrapped = read("sns", event)
    direct = read("sns", notification, headers={"x-amz-sns-message-type": "Notification"})
    raw = read("sns", alarm, headers={"x-amz-sns-message-id": notification["MessageId"]})
    identities = {
        (a.fingerprint, a.starts_at_ns, a.alarm, a.delivery_key, a.raw)
        for parsed in (wrapped, direct, raw)
        for a in parsed.arrivals
    }
    assert len(identities) == 1
    assert direct.signed == notification
    assert wrapped.signed is None
    assert raw.signed is None


def test_the_message_id_tells_a_re_send(event: Any) -> None:
    (first,), (again,) = read("sns", event).arrivals, read("sns", event).arrivals
    assert first.delivery_key == again.delivery_key != ""
    assert read("sns", event, integration="other").arrivals[0].delivery_key != first.delivery_key
    event["Records"][0]["Sns"]["MessageId"] = "another"
    assert read("sns", event).arrivals[0].delivery_key != first.delivery_key


def test_ok_ends_what_is_open(alarm: Any) -> None:
    (arrival,) = read(
        "sns", _event(alarm, NewStateValue="OK", StateChangeTime="2015-06-03T17:50:00.000+0000")
    ).arrivals
    assert (arrival.kind, arrival.event) == (ArrivalKind.EVENT, "ok")
    assert arrival.ends_open_occurrences is True
    assert arrival.fingerprint == ARN
    assert arrival.starts_at_ns is None
    assert arrival.observed_at is not None
    assert arrival.observed_at.isoformat() == "2015-06-03T17:50:00+00:00"


def test_insufficient_data_is_no_alert_and_ends_none(alarm: Any) -> None:
    (arrival,) = read("sns", _event(alarm, NewStateValue="INSUFFICIENT_DATA")).arrivals
    assert (arrival.kind, arrival.event) == (ArrivalKind.EVENT, "insufficient_data")
    assert arrival.ends_open_occurrences is False


def test_without_an_arn_the_alarm_is_named_by_its_parts(alarm: Any) -> None:
    del alarm["AlarmArn"]
    (arrival,) = read("sns", alarm).arrivals
    assert arrival.fingerprint == "123456789012/EXAMPLE/EXAMPLE"
    assert arrival.delivery_key
    alarm["AWSAccountId"] = "2"
    assert read("sns", alarm).arrivals[0].fingerprint == "2/EXAMPLE/EXAMPLE"


def test_metric_math_and_composite_alarms(alarm: Any) -> None:
    metric = {"MetricName": "Errors", "Dimensions": [{"name": "Function", "value": "f"}]}
    alarm["Trigger"] = {"Metrics": [{"MetricStat": {"Metric": metric}}]}
    (arrival,) = read("sns", alarm).arrivals
    assert arrival.entity == "f"
    assert arrival.labels["Function"] == "f"
    del alarm["Trigger"]
    assert read("sns", alarm).arrivals[0].entity == ""


def test_records_are_read_one_by_one(event: Any, alarm: Any) -> None:
    event["Records"].append({"Sns": {"Message": "not json"}})
    event["Records"].append(_event(alarm, AlarmArn="other")["Records"][0])
    parsed = read("sns", event)
    assert [a.event for a in parsed.arrivals] == ["", "rejected", ""]
    assert [(r.index, r.field) for r in parsed.rejected] == [(1, "Records[1].Sns.Message")]
    assert json.loads(parsed.arrivals[1].raw) == {"Sns": {"Message": "not json"}}


def test_a_subscription_is_handed_on(handshake: dict[str, Any]) -> None:
    parsed = read("sns", handshake)
    assert parsed.arrivals == ()
    assert parsed.reply == {"subscription": "confirm"}
    assert parsed.subscription == Subscription(
        kind="confirm", topic_arn=handshake["TopicArn"], url=handshake["SubscribeURL"]
    )
    assert parsed.signed == handshake
    assert "T0KEN" not in repr(parsed)


def test_the_end_of_a_subscription_is_not_to_be_confirmed(handshake: dict[str, Any]) -> None:
    parsed = read("sns", handshake | {"Type": "UnsubscribeConfirmation"})
    assert parsed.subscription is not None
    assert parsed.subscription.kind == "unsubscribed"


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"SubscribeURL": "http://sns.us-west-2.amazonaws.com/"}, "SubscribeURL"),
        ({"SubscribeURL": "https://169.254.169.254/"}, "SubscribeURL"),
        ({"SubscribeURL": None}, "SubscribeURL"),
        ({"TopicArn": ""}, "TopicArn"),
        ({"Type": "Other"}, "Type"),
        ({"Type": None}, "Type"),
        ({"Type": ["Notification"]}, "Type"),
    ],
)
def test_a_bad_handshake_is_refused(
    handshake: dict[str, Any], change: dict[str, Any], field: str
) -> None:
    assert refused("sns", handshake | change).field == field


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"NewStateValue": "FINE"}, f"{MESSAGE}.NewStateValue"),
        ({"NewStateValue": []}, f"{MESSAGE}.NewStateValue"),
        ({"StateChangeTime": "2015-06-03T17:43:27.123"}, f"{MESSAGE}.StateChangeTime"),
        ({"StateChangeTime": None}, f"{MESSAGE}.StateChangeTime"),
        ({"AlarmName": None}, f"{MESSAGE}.AlarmName"),
        ({"AlarmArn": "x" * 600}, f"{MESSAGE}.AlarmArn"),
        ({"AlarmDescription": "\0"}, f"{MESSAGE}.AlarmDescription"),
        (
            {"Trigger": {"Dimensions": [{"name": "a", "value": "\0"}]}},
            f"{MESSAGE}.Trigger.Dimensions.0.value",
        ),
    ],
)
def test_refusals_name_the_field(alarm: Any, change: dict[str, Any], field: str) -> None:
    assert refused("sns", _event(alarm, **change)).field == field


@pytest.mark.parametrize(
    ("document", "field"),
    [
        ({"Records": []}, "Records"),
        ({"Records": {}}, "Records"),
        ({"Records": [{}]}, "Records[0].Sns"),
        ({"Records": [{"Sns": {}}]}, MESSAGE),
        ({"Records": [{"Sns": {"Message": "[]"}}]}, MESSAGE),
        ({"Records": [{"Sns": {"Message": ""}}]}, MESSAGE),
        ({"Records": [{"Sns": {"Message": "[" * 5000}}]}, MESSAGE),
        ({"Type": "Notification", "Message": "hello"}, "Message"),
        ({}, "Type"),
        ([], "body"),
    ],
)
def test_what_is_no_alarm_is_refused(document: Any, field: str) -> None:
    assert refused("sns", document).field == field
