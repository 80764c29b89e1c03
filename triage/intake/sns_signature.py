"""Signatures of SNS messages that come straight over HTTPS. Pure: the caller gets the certificate.

A message is to be believed when `verify` returns with the certificate that lies at
`signing_cert_url(message)`, got over verified TLS: the host is what makes it Amazon's.
"""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING, Any

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from triage.errors import PayloadError
from triage.intake.sns_addresses import signing_cert_url, subscribe_url

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["signing_cert_url", "string_to_sign", "subscribe_url", "verify"]

_NOTIFICATION = ("Message", "MessageId", "Subject", "Timestamp", "TopicArn", "Type")
_HANDSHAKE = ("Message", "MessageId", "SubscribeURL", "Timestamp", "Token", "TopicArn", "Type")
_SIGNED: Mapping[str, tuple[str, ...]] = {
    "Notification": _NOTIFICATION,
    "SubscriptionConfirmation": _HANDSHAKE,
    "UnsubscribeConfirmation": _HANDSHAKE,
}


def string_to_sign(message: Mapping[str, Any]) -> bytes:
    """Name and value of each signed field on lines of their own, in byte order of the names
    (Amazon SNS, "Verifying the signatures of Amazon SNS messages"). Raises PayloadError."""
    message_type = message.get("Type")
    names = _SIGNED.get(message_type) if isinstance(message_type, str) else None
    if names is None:
        raise PayloadError("Type", f"expected one of {', '.join(_SIGNED)}")
    lines = []
    for name in names:
        value = message.get(name)
        if name == "Subject" and value is None:
            continue
        if not isinstance(value, str):
            raise PayloadError(name, "is required, as text")
        lines += [name, value]
    try:
        return "".join(f"{line}\n" for line in lines).encode()
    except UnicodeEncodeError as error:
        raise PayloadError("Message", "holds half a surrogate pair") from error


def verify(message: Mapping[str, Any], certificate_pem: bytes) -> None:
    """Returns when the certificate's key signed `message`; raises PayloadError when it did not,
    or when either cannot be read. Versions 1 (SHA-1) and 2 (SHA-256)."""
    match message.get("SignatureVersion"):
        case "1":
            # The sender picks the version; 1 is what a topic uses unless its owner changes it.
            algorithm: hashes.HashAlgorithm = hashes.SHA1()  # noqa: S303  Amazon's choice
        case "2":
            algorithm = hashes.SHA256()
        case _:
            raise PayloadError("SignatureVersion", 'expected "1" or "2"')
    encoded = message.get("Signature")
    if not isinstance(encoded, str):
        raise PayloadError("Signature", "is required, as base64 text")
    try:
        signature = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError) as error:
        raise PayloadError("Signature", "is not base64") from error
    try:
        _public_key(certificate_pem).verify(
            signature, string_to_sign(message), padding.PKCS1v15(), algorithm
        )
    except InvalidSignature as error:
        raise PayloadError("Signature", "does not fit the message and its certificate") from error


def _public_key(certificate_pem: bytes) -> rsa.RSAPublicKey:
    try:
        key = x509.load_pem_x509_certificate(certificate_pem).public_key()
    except (ValueError, UnsupportedAlgorithm) as error:
        raise PayloadError("SigningCertURL", "does not lead to a certificate") from error
    if not isinstance(key, rsa.RSAPublicKey):
        raise PayloadError("SigningCertURL", "leads to a certificate without an RSA key")
    return key
