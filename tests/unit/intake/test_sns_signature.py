from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.x509.oid import NameOID

from triage.errors import PayloadError
from triage.intake.sns_signature import signing_cert_url, string_to_sign, subscribe_url, verify

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.types import CertificateIssuerPrivateKeyTypes

NOTIFICATION = {
    "Type": "Notification",
    "MessageId": "22b80b92",
    "TopicArn": "arn:aws:sns:us-west-2:123456789012:alarms",
    "Subject": "My First Message",
    "Message": "Hello\nworld €",
    "Timestamp": "2012-05-02T00:54:06.655Z",
    "UnsubscribeURL": "https://sns.us-west-2.amazonaws.com/?Action=Unsubscribe",
}
HANDSHAKE = NOTIFICATION | {
    "Type": "SubscriptionConfirmation",
    "Token": "2336412f37",
    "SubscribeURL": "https://sns.us-west-2.amazonaws.com/?Action=ConfirmSubscription",
}
HASHES: dict[str, hashes.HashAlgorithm] = {
    "1": hashes.SHA1(),  # noqa: S303  Amazon's version 1
    "2": hashes.SHA256(),
}


def _certificate(key: CertificateIssuerPrivateKeyTypes) -> bytes:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "sns.amazonaws.com")])
    start = datetime(2026, 1, 1, tzinfo=UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(start)
        .not_valid_after(start + timedelta(days=3650))
        .sign(key, hashes.SHA256())
    )
    return certificate.public_bytes(serialization.Encoding.PEM)


@pytest.fixture(scope="module")
def key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


@pytest.fixture(scope="module")
def certificate(key: rsa.RSAPrivateKey) -> bytes:
    return _certificate(key)


def _signed(key: rsa.RSAPrivateKey, message: dict[str, Any], version: str) -> dict[str, Any]:
    """Signs what the test itself spells out, not what the code under test would."""
    if message["Type"] == "Notification":
        names = ["Message", "MessageId", "Subject", "Timestamp", "TopicArn", "Type"]
    else:
        names = ["Message", "MessageId", "SubscribeURL", "Timestamp", "Token", "TopicArn", "Type"]
    text = "".join(f"{name}\n{message[name]}\n" for name in names if name in message)
    signature = key.sign(text.encode(), padding.PKCS1v15(), HASHES[version])
    return message | {
        "SignatureVersion": version,
        "Signature": base64.b64encode(signature).decode(),
    }


def test_the_string_to_sign() -> None:
    assert string_to_sign(NOTIFICATION).decode() == (
        "Message\nHello\nworld €\nMessageId\n22b80b92\nSubject\nMy First Message\n"
        "Timestamp\n2012-05-02T00:54:06.655Z\n"
        "TopicArn\narn:aws:sns:us-west-2:123456789012:alarms\nType\nNotification\n"
    )
    assert b"Subject" not in string_to_sign(NOTIFICATION | {"Subject": None})
    assert b"Token\n2336412f37\n" in string_to_sign(HANDSHAKE)
    assert b"Subject" not in string_to_sign(HANDSHAKE)


@pytest.mark.parametrize("version", ["1", "2"])
@pytest.mark.parametrize("message", [NOTIFICATION, HANDSHAKE])
def test_a_signed_message_verifies_and_a_changed_one_does_not(
    key: rsa.RSAPrivateKey, certificate: bytes, message: dict[str, Any], version: str
) -> None:
    signed = _signed(key, message, version)
    verify(signed, certificate)
    verify(signed | {"UnsubscribeURL": "unsigned"}, certificate)
    for name in ("Message", "MessageId", "Timestamp", "TopicArn"):
        with pytest.raises(PayloadError) as caught:
            verify(signed | {name: "changed"}, certificate)
        assert caught.value.field == "Signature"


def test_a_signature_is_bound_to_its_version_and_key(
    key: rsa.RSAPrivateKey, certificate: bytes
) -> None:
    signed = _signed(key, NOTIFICATION, "1")
    stranger = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    for message, pem in (
        (signed | {"SignatureVersion": "2"}, certificate),
        (signed, _certificate(stranger)),
    ):
        with pytest.raises(PayloadError, match="does not fit"):
            verify(message, pem)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"SignatureVersion": "3"}, "SignatureVersion"),
        ({"SignatureVersion": 1}, "SignatureVersion"),
        ({"Signature": None}, "Signature"),
        ({"Signature": "***"}, "Signature"),
        ({"Signature": "é"}, "Signature"),
        ({"Signature": ""}, "Signature"),
        ({"Type": "Other"}, "Type"),
        ({"Type": []}, "Type"),
        ({"Message": None}, "Message"),
        ({"Message": "\ud800"}, "Message"),
    ],
)
def test_unreadable_signatures_name_the_field(
    key: rsa.RSAPrivateKey, certificate: bytes, change: dict[str, Any], field: str
) -> None:
    with pytest.raises(PayloadError) as caught:
        verify(_signed(key, NOTIFICATION, "2") | change, certificate)
    assert caught.value.field == field


def test_a_certificate_must_be_one_and_hold_an_rsa_key(key: rsa.RSAPrivateKey) -> None:
    signed = _signed(key, NOTIFICATION, "2")
    for pem in (b"", b"<html>", _certificate(ec.generate_private_key(ec.SECP256R1()))):
        with pytest.raises(PayloadError) as caught:
            verify(signed, pem)
        assert caught.value.field == "SigningCertURL"


@pytest.mark.parametrize("name", ["SigningCertURL", "SigningCertUrl"])
@pytest.mark.parametrize(
    "url",
    [
        "https://sns.us-west-2.amazonaws.com/SimpleNotificationService-f3ecfb72.pem",
        "https://sns.us-west-2.amazonaws.com:443/a.pem",
        "https://sns.cn-north-1.amazonaws.com.cn/a.pem",
    ],
)
def test_addresses_of_amazon_are_taken(name: str, url: str) -> None:
    assert signing_cert_url({name: url}) == url


@pytest.mark.parametrize(
    "url",
    [
        None,
        7,
        "",
        "EXAMPLE",
        "http://sns.us-west-2.amazonaws.com/a.pem",
        "https://sns.us-west-2.amazonaws.com/a.txt",
        "https://sns.us-west-2.amazonaws.com/a?x=.pem",
        "https://sns.us-west-2.amazonaws.com/a.pem?x=1",
        "https://sns.us-west-2.amazonaws.com/a#.pem",
        "https://sns.us-west-2.amazonaws.com:8443/a.pem",
        "https://sns.us-west-2.amazonaws.com:x/a.pem",
        "https://user@sns.us-west-2.amazonaws.com/a.pem",
        "https://sns.us-west-2.amazonaws.com@evil.example/a.pem",
        "https://evil.example/sns.us-west-2.amazonaws.com/a.pem",
        "https://sns.us-west-2.amazonaws.com.evil.example/a.pem",
        "https://evilsns.us-west-2.amazonaws.com/a.pem",
        "https://sns.evil.us-west-2.amazonaws.com/a.pem",
        "https://s3.us-west-2.amazonaws.com/a.pem",
        "https://sns.us-west-2.amazonaws.com.cn.evil/a.pem",
        "https://evil.example\\@sns.us-west-2.amazonaws.com/a.pem",
        "https://sns.us-west-2.amazonaws.com\n/a.pem",
        "https://sns.us-west-2.amazonaws.com/a.pem\n",
        "https://sns.us-wést-2.amazonaws.com/a.pem",
        "https://[::1/a.pem",
        "https://sns.us-west-2.amazonaws.com/" + "a" * 3000 + ".pem",
    ],
)
def test_every_other_address_is_refused(url: object) -> None:
    with pytest.raises(PayloadError) as caught:
        signing_cert_url({"SigningCertURL": url})
    assert caught.value.field == "SigningCertURL"


def test_a_subscribe_address_is_no_certificate_but_lies_on_the_same_hosts() -> None:
    assert subscribe_url(HANDSHAKE) == HANDSHAKE["SubscribeURL"]
    with pytest.raises(PayloadError):
        subscribe_url({"SubscribeURL": "https://evil.example/?Action=ConfirmSubscription"})
    with pytest.raises(PayloadError):
        subscribe_url({})
