"""Timestamps: what somebody else's clock says of a checkpoint (RFC 3161), by the extra `timestamp`.

    reply = fetch("https://tsa.example/tsr", text)          # kept beside the checkpoint, as it came
    time = verify(reply, text, certificates([Path("tsa-ca.pem")]))

What is stamped is the checkpoint's text, the very bytes that the log signs, by their SHA-256 (SHA-384 and
SHA-512 are read as well). So a stamp outlives the log's key, and says that this tree was there by then. What
is kept is the authority's whole reply, DER, which `openssl ts -verify -in REPLY -data TEXT -CAfile CA` takes
as well.

`fetch` knows no authority's certificate. It makes sure that the reply grants what was asked: this text, this
request (by its nonce). Whether an authority that anybody trusts signed it is what `verify` says, with the
certificates that an auditor gives it. A certificate has to be valid at the time of the stamp, and no longer.

The work on DER, CMS and certificates is rfc3161-client's. What it finds wrong comes out as `TimestampError`.
"""

from __future__ import annotations

import hashlib
import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from cryptography import x509

from ..domain.errors import BadData, Misuse
from .files import read_file
from .http_client import SECONDS, Unreachable, address_of, request

if TYPE_CHECKING:
    from rfc3161_client import TimeStampResponse

REPLY_BYTES_MAX: Final = 64 * 1024
CERTIFICATE_FILE_BYTES_MAX: Final = 1024 * 1024
CERTIFICATES_MAX: Final = 256

_HASHES: Final = {
    "2.16.840.1.101.3.4.2.1": hashlib.sha256,
    "2.16.840.1.101.3.4.2.2": hashlib.sha384,
    "2.16.840.1.101.3.4.2.3": hashlib.sha512,
}
_REASON = re.compile(r'reason: "([^"]{1,80})"')
_REPLY_TYPE: Final = "application/timestamp-reply"
_GRANTED: Final = 0


class TimestampError(BadData):
    """A timestamp that says nothing of this checkpoint, or that no trusted authority signed."""


@dataclass(frozen=True)
class Certificates:
    """Whom an auditor believes about time: the roots, and what may stand between them and an authority."""

    roots: tuple[x509.Certificate, ...]
    intermediates: tuple[x509.Certificate, ...] = ()


def require_library() -> None:
    """Raise `Misuse` where the extra `timestamp` is not installed."""
    try:
        import rfc3161_client  # noqa: F401
    except ImportError:
        raise Misuse(
            "timestamps: rfc3161-client is not installed",
            hint="install causebook with its extra 'timestamp' (README, Install)",
        ) from None


def fetch(url: str, text: bytes, *, seconds: float = SECONDS) -> bytes:
    """An authority's reply, DER, on the text of a checkpoint.

    Raises `Unreachable` where none comes, or none that grants what was asked; `Misuse` for a URL that is not
    http or https, and where the extra is not installed.
    """
    require_library()
    from rfc3161_client import HashAlgorithm, TimestampRequestBuilder

    address = address_of(url, what="timestamp authority")
    asked = (
        TimestampRequestBuilder()
        .data(text)
        .hash_algorithm(HashAlgorithm.SHA256)
        .nonce(nonce=True)
        .cert_request(cert_request=True)
        .build()
    )
    response = request(
        "POST",
        address,
        what="timestamp authority",
        body=asked.as_bytes(),
        headers={"Content-Type": "application/timestamp-query"},
        bytes_max=REPLY_BYTES_MAX,
        seconds=seconds,
    )
    if response.status != 200 or response.content_type != _REPLY_TYPE:
        raise Unreachable(
            f"timestamp authority {url}: expected status 200 and {_REPLY_TYPE}, found status"
            f" {response.status} and {response.content_type!a}"
        )
    try:
        reply = _granted(response.body, text)
        if reply.tst_info.nonce != asked.nonce:
            raise TimestampError("timestamp: expected the reply to this request, found another")
    except TimestampError as error:
        raise Unreachable(f"timestamp authority {url}: {error.message}") from None
    return response.body


def verify(reply: bytes, text: bytes, trusted: Certificates) -> datetime:
    """When the text of a checkpoint was stamped, as an authority under one of the roots says: UTC.

    Raises `TimestampError` where the reply does not say it, `Misuse` where the extra is not installed.
    """
    require_library()
    found = _granted(reply, text)
    fault = TimestampError("timestamp: no root is trusted")
    for root in trusted.roots:
        # One by one: of two roots of one name, as a renewed one has, the library looks at either alone.
        try:
            return _verified(found, text, root, trusted)
        except TimestampError as error:
            fault = error
    raise fault


def _verified(
    found: TimeStampResponse, text: bytes, root: x509.Certificate, trusted: Certificates
) -> datetime:
    from rfc3161_client import VerificationError, VerifierBuilder

    verifier = VerifierBuilder(roots=[root], intermediates=list(trusted.intermediates)).build()
    try:
        # cryptography warns of certificates it will refuse one day; on a terminal that is noise.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            _require_one_of_each(found, trusted)
            verifier.verify_message(found, text)
        return found.tst_info.gen_time.astimezone(UTC)
    except TimestampError:
        raise
    except VerificationError as error:
        raise TimestampError(f"timestamp: {_one_line(error)}") from None
    except Exception as error:  # noqa: BLE001 - certificates from outside: whatever it is, they do not hold
        raise TimestampError(f"timestamp: {type(error).__name__}: {_one_line(error)}") from None


def _require_one_of_each(reply: TimeStampResponse, trusted: Certificates) -> None:
    """Raise `TimestampError` where two certificates claim one issuer and serial number.

    One part of the library finds the signer's certificate by these two to check the signature, another to
    check that it may stamp; they must not find two.
    """
    brought = map(x509.load_der_x509_certificate, reply.signed_data.certificates)
    known: dict[tuple[x509.Name, int], x509.Certificate] = {}
    for each in (*trusted.roots, *trusted.intermediates, *brought):
        if known.setdefault((each.issuer, each.serial_number), each) != each:
            raise TimestampError("timestamp: two certificates of one issuer and serial number")


def certificates(paths: Sequence[Path]) -> Certificates:
    """The certificates in files, PEM or DER: those issued by themselves are roots, the others intermediates.

    Raises `NoInput`, `Denied`, `IOFailure` for a file that cannot be read, `BadData` for one that holds
    none, and where there is no root among them.
    """
    found = [certificate for path in paths for certificate in _read(path)]
    # Twice the same, in two files, is once.
    unique = list(dict.fromkeys(found))
    roots = tuple(each for each in unique if each.issuer == each.subject)
    if not roots:
        raise BadData(
            "timestamp CA: expected a root certificate, found none",
            hint="a root is issued by itself; authorities publish theirs",
        )
    return Certificates(roots, tuple(each for each in unique if each not in roots))


def _granted(reply: bytes, text: bytes) -> TimeStampResponse:
    """The reply, which grants a stamp of this text. Nothing about its signature is known to hold."""
    from rfc3161_client import decode_timestamp_response

    if len(reply) > REPLY_BYTES_MAX:
        raise TimestampError(
            f"timestamp: expected at most {REPLY_BYTES_MAX} bytes, found {len(reply)}"
        )
    try:
        found = decode_timestamp_response(reply)
        status = found.status
        if status != _GRANTED:
            raise TimestampError(f"timestamp: expected status 0 (granted), found {status}")
        imprint = found.tst_info.message_imprint
        algorithm, digest = imprint.hash_algorithm.dotted_string, imprint.message
    except ValueError as error:
        raise TimestampError(f"timestamp: not a reply of RFC 3161: {_one_line(error)}") from None
    if algorithm not in _HASHES:
        raise TimestampError(f"timestamp: expected SHA-256, found the algorithm {algorithm}")
    if digest != _HASHES[algorithm](text).digest():
        raise TimestampError("timestamp: expected a stamp of this checkpoint, found one of another")
    return found


def _read(path: Path) -> list[x509.Certificate]:
    content = read_file(path, CERTIFICATE_FILE_BYTES_MAX, "certificates")
    try:
        if b"-----BEGIN" in content:
            found = x509.load_pem_x509_certificates(content)
        else:
            found = [x509.load_der_x509_certificate(content)]
        _ = [(each.issuer, each.subject) for each in found]  # parsed when they are asked for
    except (ValueError, x509.InvalidVersion):
        found = []
    if not 1 <= len(found) <= CERTIFICATES_MAX:
        raise BadData(
            f"{path}: expected 1 to {CERTIFICATES_MAX} certificates, found something else",
            hint="in PEM, which begins with -----BEGIN CERTIFICATE-----, or one in DER",
        )
    return found


def _one_line(error: Exception) -> str:
    """What a library said, without where in its own code it was."""
    told, _, stack = str(error).partition(": ErrorStack")
    told = "; ".join([told, *dict.fromkeys(_REASON.findall(stack))])
    return ascii(" ".join(told.split()))[1:-1][:160] or type(error).__name__
